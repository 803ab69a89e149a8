//! Field tags: the type [`Tag`], and constants for the tags that the engine needs.
//!
//! Applications write other tags as `Tag(number)`, or find them in a dictionary.

use core::fmt;

/// The number of a field as written before `=`, 1 to 4294967295. The value 0 means "not a valid
/// tag".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Tag(pub u32);

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tag({})", self.0)
    }
}

macro_rules! tags {
    ($($name:ident = $number:literal, $text:literal;)*) => {
        $(
            #[doc = concat!($text, "(", stringify!($number), ")")]
            pub const $name: Tag = Tag($number);
        )*
    };
}

tags! {
    ACCOUNT = 1, "Account";
    AVG_PX = 6, "AvgPx";
    BEGIN_SEQ_NO = 7, "BeginSeqNo";
    BEGIN_STRING = 8, "BeginString";
    BODY_LENGTH = 9, "BodyLength";
    CHECK_SUM = 10, "CheckSum";
    CL_ORD_ID = 11, "ClOrdID";
    CUM_QTY = 14, "CumQty";
    END_SEQ_NO = 16, "EndSeqNo";
    EXEC_ID = 17, "ExecID";
    EXEC_TRANS_TYPE = 20, "ExecTransType";
    HANDL_INST = 21, "HandlInst";
    LAST_PX = 31, "LastPx";
    LAST_QTY = 32, "LastQty";
    MSG_SEQ_NUM = 34, "MsgSeqNum";
    MSG_TYPE = 35, "MsgType";
    NEW_SEQ_NO = 36, "NewSeqNo";
    ORDER_ID = 37, "OrderID";
    ORDER_QTY = 38, "OrderQty";
    ORD_STATUS = 39, "OrdStatus";
    ORD_TYPE = 40, "OrdType";
    ORIG_CL_ORD_ID = 41, "OrigClOrdID";
    POSS_DUP_FLAG = 43, "PossDupFlag";
    PRICE = 44, "Price";
    REF_SEQ_NUM = 45, "RefSeqNum";
    SENDER_COMP_ID = 49, "SenderCompID";
    SENDER_SUB_ID = 50, "SenderSubID";
    SENDING_TIME = 52, "SendingTime";
    SIDE = 54, "Side";
    SYMBOL = 55, "Symbol";
    TARGET_COMP_ID = 56, "TargetCompID";
    TARGET_SUB_ID = 57, "TargetSubID";
    TEXT = 58, "Text";
    TIME_IN_FORCE = 59, "TimeInForce";
    TRANSACT_TIME = 60, "TransactTime";
    SIGNATURE = 89, "Signature";
    SIGNATURE_LENGTH = 93, "SignatureLength";
    RAW_DATA_LENGTH = 95, "RawDataLength";
    RAW_DATA = 96, "RawData";
    POSS_RESEND = 97, "PossResend";
    ENCRYPT_METHOD = 98, "EncryptMethod";
    CXL_REJ_REASON = 102, "CxlRejReason";
    ORD_REJ_REASON = 103, "OrdRejReason";
    HEART_BT_INT = 108, "HeartBtInt";
    TEST_REQ_ID = 112, "TestReqID";
    ON_BEHALF_OF_COMP_ID = 115, "OnBehalfOfCompID";
    ON_BEHALF_OF_SUB_ID = 116, "OnBehalfOfSubID";
    ORIG_SENDING_TIME = 122, "OrigSendingTime";
    GAP_FILL_FLAG = 123, "GapFillFlag";
    DELIVER_TO_COMP_ID = 128, "DeliverToCompID";
    DELIVER_TO_SUB_ID = 129, "DeliverToSubID";
    RESET_SEQ_NUM_FLAG = 141, "ResetSeqNumFlag";
    SENDER_LOCATION_ID = 142, "SenderLocationID";
    TARGET_LOCATION_ID = 143, "TargetLocationID";
    ON_BEHALF_OF_LOCATION_ID = 144, "OnBehalfOfLocationID";
    DELIVER_TO_LOCATION_ID = 145, "DeliverToLocationID";
    EXEC_TYPE = 150, "ExecType";
    LEAVES_QTY = 151, "LeavesQty";
    XML_DATA_LEN = 212, "XmlDataLen";
    XML_DATA = 213, "XmlData";
    LAST_MSG_SEQ_NUM_PROCESSED = 369, "LastMsgSeqNumProcessed";
    REF_TAG_ID = 371, "RefTagID";
    REF_MSG_TYPE = 372, "RefMsgType";
    SESSION_REJECT_REASON = 373, "SessionRejectReason";
    BUSINESS_REJECT_REF_ID = 379, "BusinessRejectRefID";
    BUSINESS_REJECT_REASON = 380, "BusinessRejectReason";
    MAX_MESSAGE_SIZE = 383, "MaxMessageSize";
    CXL_REJ_RESPONSE_TO = 434, "CxlRejResponseTo";
    TEST_MESSAGE_INDICATOR = 464, "TestMessageIndicator";
    USERNAME = 553, "Username";
    PASSWORD = 554, "Password";
    NEXT_EXPECTED_MSG_SEQ_NUM = 789, "NextExpectedMsgSeqNum";
    NEW_PASSWORD = 925, "NewPassword";
    APPL_VER_ID = 1128, "ApplVerID";
    CSTM_APPL_VER_ID = 1129, "CstmApplVerID";
    APPL_EXT_ID = 1156, "ApplExtID";
    DEFAULT_APPL_VER_ID = 1137, "DefaultApplVerID";
    DEFAULT_CSTM_APPL_VER_ID = 1408, "DefaultCstmApplVerID";
}

/// Returns true if only the session layer may write `tag`.
#[must_use]
pub const fn is_session_owned(tag: Tag) -> bool {
    matches!(tag.0, 8 | 9 | 10 | 34 | 35 | 43 | 49 | 52 | 56 | 122)
}

/// Returns true if the field belongs to one session and is dropped when its message is forwarded.
///
/// Dropped are the fields of [`is_session_owned`], the SubID and LocationID fields of both parties,
/// LastMsgSeqNumProcessed(369), and the message's signature and encryption fields.
#[must_use]
pub const fn stays_with_session(tag: Tag) -> bool {
    is_session_owned(tag) || matches!(tag.0, 50 | 57 | 142 | 143 | 369 | 89 | 90 | 91 | 93)
}

/// First tag for user-defined fields of venues and their counterparties (FIX, user defined fields).
pub const USER_DEFINED: u32 = 5000;
