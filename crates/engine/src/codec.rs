//! What signatures and generated messages name beside the types at the root. All else of messages,
//! such as drafts, frames and validation, is in the crate `transfix-codec`.

pub use transfix_codec::draft::DraftEntry;
pub use transfix_codec::group::Groups;
pub use transfix_codec::{
    CheckSumPolicy, FieldIndex, Fields, FrameWriter, Garbled, Members, MessageLayout, typed,
};
