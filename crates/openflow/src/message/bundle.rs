//! Bundles: messages that take effect together (OpenFlow 1.4, ONF extension 230 for 1.3).

use bytes::Bytes;

/// Opens, closes, commits or discards a bundle (`OFPT_BUNDLE_CONTROL`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BundleControl {
    /// The bundle, chosen by the controller.
    pub bundle: u32,
    /// The request, or the reply to one.
    pub kind: BundleControlType,
    /// Bits of `OFPBF_*`.
    pub flags: u16,
    /// Properties as they came.
    pub properties: Bytes,
}

/// All messages take effect, or none.
pub const ATOMIC: u16 = 1 << 0;
/// Messages take effect in their order.
pub const ORDERED: u16 = 1 << 1;

/// The kinds of bundle control (`OFPBCT_*`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BundleControlType {
    /// Opens.
    OpenRequest = 0,
    /// Answers that.
    OpenReply = 1,
    /// Closes: no message can be added.
    CloseRequest = 2,
    /// Answers that.
    CloseReply = 3,
    /// Makes the changes.
    CommitRequest = 4,
    /// Answers that.
    CommitReply = 5,
    /// Forgets the bundle.
    DiscardRequest = 6,
    /// Answers that.
    DiscardReply = 7,
}

/// Adds a message to a bundle (`OFPT_BUNDLE_ADD_MESSAGE`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BundleAdd {
    /// The bundle.
    pub bundle: u32,
    /// Bits of `OFPBF_*`, which must be those of the bundle.
    pub flags: u16,
    /// The whole message, header included.
    pub message: Bytes,
    /// Properties as they came.
    pub properties: Bytes,
}
