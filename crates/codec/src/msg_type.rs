//! Message types: MsgType(35) and the constants of the standard.
//!
//! Functions accept a message type as bytes: a constant, `"D"`, `b"D"`, the result of
//! [`Message::msg_type`](crate::Message::msg_type), or the `MSG_TYPE` of a typed message.

use core::fmt;

use crate::shown::Shown;

/// MsgType(35): the type of a message, as encoded on the wire.
/// ```
/// use transfix_codec::{MsgType, msg_type};
///
/// let received = MsgType::of(b"D");
/// assert!(received == msg_type::NEW_ORDER_SINGLE && received == "D" && received == b"D");
/// assert_eq!(received.name(), Some("NewOrderSingle"));
/// match received {
///     msg_type::NEW_ORDER_SINGLE => {}
///     other => panic!("{other} is not taken"),
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MsgType<'a>(&'a [u8]);

/// Maximum length of a sent message type, in bytes; the standard needs 2.
const BYTES_MAX: usize = 16;

impl<'a> MsgType<'a> {
    /// Creates a message type, such as `"D"`, from text.
    ///
    /// The encoder checks the type when the caller begins a message.
    #[must_use]
    pub const fn new(text: &'a str) -> Self {
        Self(text.as_bytes())
    }

    /// Creates a message type from bytes.
    #[must_use]
    #[inline]
    pub const fn of(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns the value of MsgType(35).
    #[must_use]
    #[inline]
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// Returns the value of MsgType(35) as text; `None` if the bytes are not UTF-8, which cannot
    /// occur for a valid type.
    #[must_use]
    pub fn as_str(self) -> Option<&'a str> {
        core::str::from_utf8(self.0).ok()
    }

    /// Returns true if the value of MsgType(35) has no bytes.
    #[must_use]
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if the type can be sent: 1 to 16 printable ASCII characters.
    #[must_use]
    #[inline]
    pub fn is_valid(self) -> bool {
        (1..=BYTES_MAX).contains(&self.0.len()) && self.0.iter().all(u8::is_ascii_graphic)
    }

    /// Returns true if messages of this type belong to the session layer, not to the application.
    ///
    /// Administrative types are Heartbeat(0) to Logout(5), and Logon(A).
    #[must_use]
    #[inline]
    pub const fn is_administrative(self) -> bool {
        matches!(self.0, [b'0'..=b'5' | b'A'])
    }

    /// Returns true if an application may send this type: valid and not administrative.
    #[must_use]
    #[inline]
    pub fn is_application(self) -> bool {
        !self.is_administrative() && self.is_valid()
    }

    /// Returns the name in the standard, such as `NewOrderSingle`; `None` for a custom type.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        STANDARD.iter().find(|(known, _)| *known == self).map(|(_, name)| *name)
    }
}

impl AsRef<[u8]> for MsgType<'_> {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self.0
    }
}

impl<'a> From<&'a str> for MsgType<'a> {
    fn from(text: &'a str) -> Self {
        Self::new(text)
    }
}

impl<'a> From<&'a [u8]> for MsgType<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for MsgType<'a> {
    fn from(bytes: &'a [u8; N]) -> Self {
        Self(bytes)
    }
}

macro_rules! equal {
    ($($(const $n:ident)? $other:ty, $this:ident => $bytes:expr;)*) => {
        $(
            impl$(<const $n: usize>)? PartialEq<$other> for MsgType<'_> {
                #[inline]
                fn eq(&self, $this: &$other) -> bool {
                    self.0 == $bytes
                }
            }
        )*
    };
}

equal! {
    str, other => other.as_bytes();
    &str, other => other.as_bytes();
    [u8], other => other;
    &[u8], other => *other;
    const N [u8; N], other => other.as_slice();
    const N &[u8; N], other => other.as_slice();
}

/// Formats the type for a log line; see [`Shown`].
impl fmt::Display for MsgType<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Shown::new(self.0).fmt(f)
    }
}

impl fmt::Debug for MsgType<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MsgType({self})")
    }
}

macro_rules! types {
    ($($name:ident = $value:literal, $text:literal;)*) => {
        $(
            #[doc = concat!($text, "(", $value, ")")]
            pub const $name: MsgType<'static> = MsgType::new($value);
        )*

        /// All types of the standard with their names; one-character types come first.
        pub const STANDARD: &[(MsgType<'static>, &str)] = &[$(($name, $text)),*];
    };
}

types! {
    HEARTBEAT = "0", "Heartbeat";
    TEST_REQUEST = "1", "TestRequest";
    RESEND_REQUEST = "2", "ResendRequest";
    REJECT = "3", "Reject";
    SEQUENCE_RESET = "4", "SequenceReset";
    LOGOUT = "5", "Logout";
    IOI = "6", "IOI";
    ADVERTISEMENT = "7", "Advertisement";
    EXECUTION_REPORT = "8", "ExecutionReport";
    ORDER_CANCEL_REJECT = "9", "OrderCancelReject";
    LOGON = "A", "Logon";
    NEWS = "B", "News";
    EMAIL = "C", "Email";
    NEW_ORDER_SINGLE = "D", "NewOrderSingle";
    NEW_ORDER_LIST = "E", "NewOrderList";
    ORDER_CANCEL_REQUEST = "F", "OrderCancelRequest";
    ORDER_CANCEL_REPLACE_REQUEST = "G", "OrderCancelReplaceRequest";
    ORDER_STATUS_REQUEST = "H", "OrderStatusRequest";
    ALLOCATION_INSTRUCTION = "J", "AllocationInstruction";
    LIST_CANCEL_REQUEST = "K", "ListCancelRequest";
    LIST_EXECUTE = "L", "ListExecute";
    LIST_STATUS_REQUEST = "M", "ListStatusRequest";
    LIST_STATUS = "N", "ListStatus";
    ALLOCATION_INSTRUCTION_ACK = "P", "AllocationInstructionAck";
    DONT_KNOW_TRADE = "Q", "DontKnowTrade";
    QUOTE_REQUEST = "R", "QuoteRequest";
    QUOTE = "S", "Quote";
    SETTLEMENT_INSTRUCTIONS = "T", "SettlementInstructions";
    MARKET_DATA_REQUEST = "V", "MarketDataRequest";
    MARKET_DATA_SNAPSHOT_FULL_REFRESH = "W", "MarketDataSnapshotFullRefresh";
    MARKET_DATA_INCREMENTAL_REFRESH = "X", "MarketDataIncrementalRefresh";
    MARKET_DATA_REQUEST_REJECT = "Y", "MarketDataRequestReject";
    QUOTE_CANCEL = "Z", "QuoteCancel";
    QUOTE_STATUS_REQUEST = "a", "QuoteStatusRequest";
    MASS_QUOTE_ACK = "b", "MassQuoteAck";
    SECURITY_DEFINITION_REQUEST = "c", "SecurityDefinitionRequest";
    SECURITY_DEFINITION = "d", "SecurityDefinition";
    SECURITY_STATUS_REQUEST = "e", "SecurityStatusRequest";
    SECURITY_STATUS = "f", "SecurityStatus";
    TRADING_SESSION_STATUS_REQUEST = "g", "TradingSessionStatusRequest";
    TRADING_SESSION_STATUS = "h", "TradingSessionStatus";
    MASS_QUOTE = "i", "MassQuote";
    BUSINESS_MESSAGE_REJECT = "j", "BusinessMessageReject";
    BID_REQUEST = "k", "BidRequest";
    BID_RESPONSE = "l", "BidResponse";
    LIST_STRIKE_PRICE = "m", "ListStrikePrice";
    XML_NON_FIX = "n", "XMLnonFIX";
    REGISTRATION_INSTRUCTIONS = "o", "RegistrationInstructions";
    REGISTRATION_INSTRUCTIONS_RESPONSE = "p", "RegistrationInstructionsResponse";
    ORDER_MASS_CANCEL_REQUEST = "q", "OrderMassCancelRequest";
    ORDER_MASS_CANCEL_REPORT = "r", "OrderMassCancelReport";
    NEW_ORDER_CROSS = "s", "NewOrderCross";
    CROSS_ORDER_CANCEL_REPLACE_REQUEST = "t", "CrossOrderCancelReplaceRequest";
    CROSS_ORDER_CANCEL_REQUEST = "u", "CrossOrderCancelRequest";
    SECURITY_TYPE_REQUEST = "v", "SecurityTypeRequest";
    SECURITY_TYPES = "w", "SecurityTypes";
    SECURITY_LIST_REQUEST = "x", "SecurityListRequest";
    SECURITY_LIST = "y", "SecurityList";
    DERIVATIVE_SECURITY_LIST_REQUEST = "z", "DerivativeSecurityListRequest";
    DERIVATIVE_SECURITY_LIST = "AA", "DerivativeSecurityList";
    NEW_ORDER_MULTILEG = "AB", "NewOrderMultileg";
    MULTILEG_ORDER_CANCEL_REPLACE = "AC", "MultilegOrderCancelReplace";
    TRADE_CAPTURE_REPORT_REQUEST = "AD", "TradeCaptureReportRequest";
    TRADE_CAPTURE_REPORT = "AE", "TradeCaptureReport";
    ORDER_MASS_STATUS_REQUEST = "AF", "OrderMassStatusRequest";
    QUOTE_REQUEST_REJECT = "AG", "QuoteRequestReject";
    RFQ_REQUEST = "AH", "RFQRequest";
    QUOTE_STATUS_REPORT = "AI", "QuoteStatusReport";
    QUOTE_RESPONSE = "AJ", "QuoteResponse";
    CONFIRMATION = "AK", "Confirmation";
    POSITION_MAINTENANCE_REQUEST = "AL", "PositionMaintenanceRequest";
    POSITION_MAINTENANCE_REPORT = "AM", "PositionMaintenanceReport";
    REQUEST_FOR_POSITIONS = "AN", "RequestForPositions";
    REQUEST_FOR_POSITIONS_ACK = "AO", "RequestForPositionsAck";
    POSITION_REPORT = "AP", "PositionReport";
    TRADE_CAPTURE_REPORT_REQUEST_ACK = "AQ", "TradeCaptureReportRequestAck";
    TRADE_CAPTURE_REPORT_ACK = "AR", "TradeCaptureReportAck";
    ALLOCATION_REPORT = "AS", "AllocationReport";
    ALLOCATION_REPORT_ACK = "AT", "AllocationReportAck";
    CONFIRMATION_ACK = "AU", "ConfirmationAck";
    SETTLEMENT_INSTRUCTION_REQUEST = "AV", "SettlementInstructionRequest";
    ASSIGNMENT_REPORT = "AW", "AssignmentReport";
    COLLATERAL_REQUEST = "AX", "CollateralRequest";
    COLLATERAL_ASSIGNMENT = "AY", "CollateralAssignment";
    COLLATERAL_RESPONSE = "AZ", "CollateralResponse";
    COLLATERAL_REPORT = "BA", "CollateralReport";
    COLLATERAL_INQUIRY = "BB", "CollateralInquiry";
    NETWORK_COUNTERPARTY_SYSTEM_STATUS_REQUEST = "BC", "NetworkCounterpartySystemStatusRequest";
    NETWORK_COUNTERPARTY_SYSTEM_STATUS_RESPONSE = "BD", "NetworkCounterpartySystemStatusResponse";
    USER_REQUEST = "BE", "UserRequest";
    USER_RESPONSE = "BF", "UserResponse";
    COLLATERAL_INQUIRY_ACK = "BG", "CollateralInquiryAck";
    CONFIRMATION_REQUEST = "BH", "ConfirmationRequest";
    TRADING_SESSION_LIST_REQUEST = "BI", "TradingSessionListRequest";
    TRADING_SESSION_LIST = "BJ", "TradingSessionList";
    SECURITY_LIST_UPDATE_REPORT = "BK", "SecurityListUpdateReport";
    ADJUSTED_POSITION_REPORT = "BL", "AdjustedPositionReport";
    ALLOCATION_INSTRUCTION_ALERT = "BM", "AllocationInstructionAlert";
    EXECUTION_ACK = "BN", "ExecutionAck";
    CONTRARY_INTENTION_REPORT = "BO", "ContraryIntentionReport";
    SECURITY_DEFINITION_UPDATE_REPORT = "BP", "SecurityDefinitionUpdateReport";
    SETTLEMENT_OBLIGATION_REPORT = "BQ", "SettlementObligationReport";
    DERIVATIVE_SECURITY_LIST_UPDATE_REPORT = "BR", "DerivativeSecurityListUpdateReport";
    TRADING_SESSION_LIST_UPDATE_REPORT = "BS", "TradingSessionListUpdateReport";
    MARKET_DEFINITION_REQUEST = "BT", "MarketDefinitionRequest";
    MARKET_DEFINITION = "BU", "MarketDefinition";
    MARKET_DEFINITION_UPDATE_REPORT = "BV", "MarketDefinitionUpdateReport";
    APPLICATION_MESSAGE_REQUEST = "BW", "ApplicationMessageRequest";
    APPLICATION_MESSAGE_REQUEST_ACK = "BX", "ApplicationMessageRequestAck";
    APPLICATION_MESSAGE_REPORT = "BY", "ApplicationMessageReport";
    ORDER_MASS_ACTION_REPORT = "BZ", "OrderMassActionReport";
    ORDER_MASS_ACTION_REQUEST = "CA", "OrderMassActionRequest";
    USER_NOTIFICATION = "CB", "UserNotification";
    STREAM_ASSIGNMENT_REQUEST = "CC", "StreamAssignmentRequest";
    STREAM_ASSIGNMENT_REPORT = "CD", "StreamAssignmentReport";
    STREAM_ASSIGNMENT_REPORT_ACK = "CE", "StreamAssignmentReportACK";
    PARTY_DETAILS_LIST_REQUEST = "CF", "PartyDetailsListRequest";
    PARTY_DETAILS_LIST_REPORT = "CG", "PartyDetailsListReport";
    MARGIN_REQUIREMENT_INQUIRY = "CH", "MarginRequirementInquiry";
    MARGIN_REQUIREMENT_INQUIRY_ACK = "CI", "MarginRequirementInquiryAck";
    MARGIN_REQUIREMENT_REPORT = "CJ", "MarginRequirementReport";
    PARTY_DETAILS_LIST_UPDATE_REPORT = "CK", "PartyDetailsListUpdateReport";
    PARTY_RISK_LIMITS_REQUEST = "CL", "PartyRiskLimitsRequest";
    PARTY_RISK_LIMITS_REPORT = "CM", "PartyRiskLimitsReport";
    SECURITY_MASS_STATUS_REQUEST = "CN", "SecurityMassStatusRequest";
    SECURITY_MASS_STATUS = "CO", "SecurityMassStatus";
    ACCOUNT_SUMMARY_REPORT = "CQ", "AccountSummaryReport";
    PARTY_RISK_LIMITS_UPDATE_REPORT = "CR", "PartyRiskLimitsUpdateReport";
    PARTY_RISK_LIMITS_DEFINITION_REQUEST = "CS", "PartyRiskLimitsDefinitionRequest";
    PARTY_RISK_LIMITS_DEFINITION_REQUEST_ACK = "CT", "PartyRiskLimitsDefinitionRequestAck";
    PARTY_ENTITLEMENTS_REQUEST = "CU", "PartyEntitlementsRequest";
    PARTY_ENTITLEMENTS_REPORT = "CV", "PartyEntitlementsReport";
    QUOTE_ACK = "CW", "QuoteAck";
    PARTY_DETAILS_DEFINITION_REQUEST = "CX", "PartyDetailsDefinitionRequest";
    PARTY_DETAILS_DEFINITION_REQUEST_ACK = "CY", "PartyDetailsDefinitionRequestAck";
    PARTY_ENTITLEMENTS_UPDATE_REPORT = "CZ", "PartyEntitlementsUpdateReport";
    PARTY_ENTITLEMENTS_DEFINITION_REQUEST = "DA", "PartyEntitlementsDefinitionRequest";
    PARTY_ENTITLEMENTS_DEFINITION_REQUEST_ACK = "DB", "PartyEntitlementsDefinitionRequestAck";
    TRADE_MATCH_REPORT = "DC", "TradeMatchReport";
    TRADE_MATCH_REPORT_ACK = "DD", "TradeMatchReportAck";
    PARTY_RISK_LIMITS_REPORT_ACK = "DE", "PartyRiskLimitsReportAck";
    PARTY_RISK_LIMIT_CHECK_REQUEST = "DF", "PartyRiskLimitCheckRequest";
    PARTY_RISK_LIMIT_CHECK_REQUEST_ACK = "DG", "PartyRiskLimitCheckRequestAck";
    PARTY_ACTION_REQUEST = "DH", "PartyActionRequest";
    PARTY_ACTION_REPORT = "DI", "PartyActionReport";
    MASS_ORDER = "DJ", "MassOrder";
    MASS_ORDER_ACK = "DK", "MassOrderAck";
    POSITION_TRANSFER_INSTRUCTION = "DL", "PositionTransferInstruction";
    POSITION_TRANSFER_INSTRUCTION_ACK = "DM", "PositionTransferInstructionAck";
    POSITION_TRANSFER_REPORT = "DN", "PositionTransferReport";
    MARKET_DATA_STATISTICS_REQUEST = "DO", "MarketDataStatisticsRequest";
    MARKET_DATA_STATISTICS_REPORT = "DP", "MarketDataStatisticsReport";
    COLLATERAL_REPORT_ACK = "DQ", "CollateralReportAck";
    MARKET_DATA_REPORT = "DR", "MarketDataReport";
    CROSS_REQUEST = "DS", "CrossRequest";
    CROSS_REQUEST_ACK = "DT", "CrossRequestAck";
    ALLOCATION_INSTRUCTION_ALERT_REQUEST = "DU", "AllocationInstructionAlertRequest";
    ALLOCATION_INSTRUCTION_ALERT_REQUEST_ACK = "DV", "AllocationInstructionAlertRequestAck";
    TRADE_AGGREGATION_REQUEST = "DW", "TradeAggregationRequest";
    TRADE_AGGREGATION_REPORT = "DX", "TradeAggregationReport";
    PAY_MANAGEMENT_REQUEST = "DY", "PayManagementRequest";
    PAY_MANAGEMENT_REQUEST_ACK = "DZ", "PayManagementRequestAck";
    PAY_MANAGEMENT_REPORT = "EA", "PayManagementReport";
    PAY_MANAGEMENT_REPORT_ACK = "EB", "PayManagementReportAck";
}
