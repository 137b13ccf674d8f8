//! The kernel's metadata for a received frame, for both receive methods.

/// The length of an [`Offload`] before a frame: `struct virtio_net_hdr` without its newer
/// fields.
pub(crate) const VIRTIO_HEADER_BYTES: usize = 10;

/// The metadata of a received frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Received {
    /// The whole frame's length. By messages, it exceeds the packet's room if the frame
    /// continues in the overflow area.
    pub(crate) len_bytes: usize,
    /// The work that the kernel left undone.
    pub(crate) offload: Offload,
    /// The tag that the kernel removed from the frame.
    pub(crate) vlan: Option<VlanTag>,
    /// This host sent the frame; it did not arrive.
    pub(crate) is_outgoing: bool,
    /// The frame was longer than all available room.
    pub(crate) is_cut: bool,
}

/// A VLAN tag: its EtherType and its 16 bits of control information (IEEE 802.1Q, 9.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct VlanTag {
    pub(crate) protocol: u16,
    pub(crate) control: u16,
}

impl VlanTag {
    /// The tag that a `TP_STATUS` word marks as valid, if any.
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
    /// The length of all headers; only a hint, and not read.
    pub(crate) header_bytes: u16,
    /// Payload of each segment, in bytes.
    pub(crate) segment_bytes: u16,
    /// The start of the bytes that the checksum covers.
    pub(crate) checksum_start: u16,
    /// The checksum's offset from there.
    pub(crate) checksum_offset: u16,
}

impl Offload {
    pub(crate) fn from_bytes(bytes: &[u8; VIRTIO_HEADER_BYTES]) -> Offload {
        let half = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        Offload {
            flags: bytes[0],
            segmentation: bytes[1],
            header_bytes: half(2),
            segment_bytes: half(4),
            checksum_start: half(6),
            checksum_offset: half(8),
        }
    }
    pub(crate) fn to_bytes(self) -> [u8; VIRTIO_HEADER_BYTES] {
        let mut bytes = [self.flags, self.segmentation, 0, 0, 0, 0, 0, 0, 0, 0];
        let halves = [
            self.header_bytes,
            self.segment_bytes,
            self.checksum_start,
            self.checksum_offset,
        ];
        for (place, half) in bytes[2..].chunks_exact_mut(2).zip(halves) {
            place.copy_from_slice(&half.to_ne_bytes());
        }
        bytes
    }
}
