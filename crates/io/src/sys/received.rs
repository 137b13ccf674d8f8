//! What the kernel says of a received frame beside its bytes, however it hands the frame over.

/// Bytes of a [`Offload`] before a frame: `struct virtio_net_hdr` without its newer fields.
pub(crate) const VIRTIO_HEADER_BYTES: usize = 10;

/// What is known of a received frame, beside its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Received {
    /// The whole frame's length; by messages, more than the packet's room if the frame went on in
    /// the overflow area.
    pub(crate) len_bytes: usize,
    /// What the kernel left undone.
    pub(crate) offload: Offload,
    /// The tag that the kernel took out of the frame.
    pub(crate) vlan: Option<VlanTag>,
    /// This host sent the frame; it did not arrive.
    pub(crate) is_outgoing: bool,
    /// The frame was longer than all the room there was.
    pub(crate) is_cut: bool,
}

/// A VLAN tag: its EtherType and its 16 bits of control information (IEEE 802.1Q, 9.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct VlanTag {
    pub(crate) protocol: u16,
    pub(crate) control: u16,
}

impl VlanTag {
    /// The tag that a `TP_STATUS` word speaks of, if it does.
    pub(crate) fn from_status(status: u32, control: u16, protocol: u16) -> Option<VlanTag> {
        let has = |flag: u32| status & flag != 0;
        has(libc::TP_STATUS_VLAN_VALID).then_some(VlanTag {
            control,
            protocol: match has(libc::TP_STATUS_VLAN_TPID_VALID) {
                true => protocol,
                false => libc::ETH_P_8021Q as u16,
            },
        })
    }
}

/// The virtio header of a frame: `struct virtio_net_hdr` (virtio 1.2, 5.1.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Offload {
    pub(crate) flags: u8,
    pub(crate) segmentation: u8,
    /// Payload of each segment, in bytes.
    pub(crate) segment_bytes: u16,
    /// Where the bytes begin that the checksum covers.
    pub(crate) checksum_start: u16,
    /// Where the checksum is, from there.
    pub(crate) checksum_offset: u16,
}

impl Offload {
    pub(crate) fn from_bytes(bytes: &[u8; VIRTIO_HEADER_BYTES]) -> Offload {
        let half = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        Offload {
            flags: bytes[0],
            segmentation: bytes[1],
            segment_bytes: half(4),
            checksum_start: half(6),
            checksum_offset: half(8),
        }
    }
}
