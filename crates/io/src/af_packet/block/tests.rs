//! Tests with hand-made blocks: some as the kernel makes them, some as no kernel would.

use proptest::prelude::*;

use super::*;

/// The space before an Ethernet frame when there is a virtio header.
const FRAME_START: usize = 92;
const FIRST_FRAME: usize = 48;

fn put_word(block: &mut [u8], at: usize, value: usize) {
    block[at..at + 4].copy_from_slice(&(value as u32).to_ne_bytes());
}

fn put_half(block: &mut [u8], at: usize, value: usize) {
    block[at..at + 2].copy_from_slice(&(value as u16).to_ne_bytes());
}

/// A block with these frames.
fn block(frames: &[&[u8]], block_bytes: usize) -> Vec<u8> {
    let mut block = vec![0; block_bytes];
    put_word(&mut block, FRAMES, frames.len());
    put_word(&mut block, FIRST, FIRST_FRAME);
    let mut at = FIRST_FRAME;
    for (index, frame) in frames.iter().enumerate() {
        let next = (FRAME_START + frame.len()).next_multiple_of(8);
        let is_last = index + 1 == frames.len();
        put_word(&mut block, at + NEXT, if is_last { 0 } else { next });
        put_word(&mut block, at + KEPT, frame.len());
        put_word(&mut block, at + LENGTH, frame.len());
        put_half(&mut block, at + BYTES, FRAME_START);
        block[at + FRAME_START..][..frame.len()].copy_from_slice(frame);
        at += next;
    }
    block
}

/// Reads to the end, or to the first damage.
fn read_all(block: &[u8]) -> Result<Vec<Vec<u8>>, Damage> {
    let (mut cursor, mut frames) = (Cursor::new(block), Vec::new());
    while cursor.left() > 0 {
        let frame = cursor.frame(block)?;
        frames.push(frame.bytes.to_vec());
        cursor.pass(&frame);
    }
    Ok(frames)
}

fn received(block: &[u8]) -> Result<Received, Damage> {
    Cursor::new(block).frame(block).map(|frame| frame.received)
}

#[test]
fn the_structures_are_those_of_the_kernel() {
    // Values taken by hand from `if_packet.h`.
    assert_eq!((FRAMES, FIRST), (12, 16));
    assert_eq!((NEXT, KEPT, LENGTH, STATUS, BYTES), (0, 12, 16, 20, 24));
    assert_eq!((TAG_CONTROL, TAG_PROTOCOL), (32, 36));
    assert_eq!((HEADER_BYTES, DIRECTION), (48, 58));
}

#[test]
fn reading_gives_every_frame_once_and_in_order() {
    assert_eq!(read_all(&block(&[], 4096)), Ok(vec![]));
    let frames: [&[u8]; 4] = [&[1; 60], &[2; 61], &[], &[4; 1514]];
    let expected: Vec<Vec<u8>> = frames.map(<[u8]>::to_vec).into();
    assert_eq!(read_all(&block(&frames, 4096)), Ok(expected.clone()));
    // The last frame ends at the last byte of the block.
    let end = FIRST_FRAME + (152 + 160 + 96) + FRAME_START + 1514;
    assert_eq!(read_all(&block(&frames, end)), Ok(expected));
    let whole = block(&frames, end);
    let short = &whole[..end - 1];
    assert_eq!(read_all(short), Err(Damage));
}

#[test]
fn what_is_known_of_a_frame_is_read() {
    let mut block = block(&[&[7; 100]], 4096);
    let plain = Received {
        len_bytes: 100,
        ..Received::default()
    };
    assert_eq!(received(&block), Ok(plain));

    block[FIRST_FRAME + FRAME_START - 10..][..10].copy_from_slice(&[1, 4, 3, 4, 5, 6, 7, 8, 9, 10]);
    let offload = Offload {
        flags: 1,
        segmentation: 4,
        header_bytes: u16::from_ne_bytes([3, 4]),
        segment_bytes: u16::from_ne_bytes([5, 6]),
        checksum_start: u16::from_ne_bytes([7, 8]),
        checksum_offset: u16::from_ne_bytes([9, 10]),
    };
    assert_eq!(received(&block), Ok(Received { offload, ..plain }));

    // A tag without its status flag does not count.
    put_word(&mut block, FIRST_FRAME + TAG_CONTROL, 0xa064);
    put_half(&mut block, FIRST_FRAME + TAG_PROTOCOL, 0x88a8);
    assert_eq!(received(&block).unwrap().vlan, None);
    let mut tag_with = |status: u32| {
        put_word(&mut block, FIRST_FRAME + STATUS, status as usize);
        received(&block).unwrap().vlan
    };
    let tag = |protocol| {
        let control = 0xa064;
        Some(VlanTag { protocol, control })
    };
    let valid = libc::TP_STATUS_USER | libc::TP_STATUS_VLAN_VALID;
    assert_eq!(tag_with(valid), tag(0x8100));
    assert_eq!(
        tag_with(valid | libc::TP_STATUS_VLAN_TPID_VALID),
        tag(0x88a8)
    );

    block[FIRST_FRAME + DIRECTION] = libc::PACKET_OUTGOING;
    assert!(received(&block).unwrap().is_outgoing);
}

#[test]
fn a_frame_that_was_cut_says_so() {
    let mut cut = block(&[&[7; 100]], 4096);
    put_word(&mut cut, FIRST_FRAME + LENGTH, 101);
    let expected = Received {
        len_bytes: 101,
        is_cut: true,
        ..Received::default()
    };
    assert_eq!(received(&cut), Ok(expected));
    // The kernel does this when not even the headers fit: no bytes, no virtio header.
    put_word(&mut cut, FIRST_FRAME + KEPT, 0);
    put_half(&mut cut, FIRST_FRAME + BYTES, 0);
    assert_eq!(received(&cut), Ok(expected));
    // Longer than messages have room for.
    let long = vec![7; LONGEST_FRAME_BYTES + 1];
    assert!(received(&block(&[&long], 1 << 17)).unwrap().is_cut);
    let longest = &long[1..];
    assert!(!received(&block(&[longest], 1 << 17)).unwrap().is_cut);
}

#[test]
fn what_lies_outside_is_damage() {
    let damage = |at: usize, value: usize| {
        let mut block = block(&[&[7; 100], &[8; 100]], 4096);
        put_word(&mut block, at, value);
        read_all(&block)
    };
    let last = u32::MAX as usize;
    for (at, value) in [
        (FIRST, 4096),
        (FIRST, 4090),
        (FIRST, last),
        (FIRST_FRAME + NEXT, 4096),
        (FIRST_FRAME + NEXT, last),
        (FIRST_FRAME + KEPT, 4096),
        (FIRST_FRAME + KEPT, last),
        (FIRST_FRAME + BYTES, 0xffff),
        (FIRST_FRAME + BYTES, 9),
        // The virtio header would overlap the address.
        (FIRST_FRAME + BYTES, DIRECTION + VIRTIO_HEADER_BYTES),
    ] {
        assert_eq!(damage(at, value), Err(Damage), "{value} at {at}");
    }
    // A cyclic chain ends after the number of frames that the block states.
    assert_eq!(damage(FIRST_FRAME + NEXT, 0), Ok(vec![vec![7; 100]; 2]));
    let mut endless = block(&[&[7; 100]], 4096);
    put_word(&mut endless, FRAMES, last);
    assert_eq!(read_all(&endless).map(|frames| frames.len()), Ok(4096 / 48));
    let mut cursor = Cursor::new(&endless);
    assert_eq!((cursor.give_up(), cursor.left()), (4096 / 48, 0));
}

proptest! {
    #[test]
    fn arbitrary_blocks_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let _ = read_all(&bytes);
    }

    #[test]
    fn damaged_blocks_never_panic(
        changes in prop::collection::vec((0..1024_usize, any::<u8>()), 1..12),
        length in 0..1024_usize,
    ) {
        let mut bytes = block(&[&[1; 60], &[2; 61], &[3; 300]], 1024);
        for (at, value) in changes {
            bytes[at] = value;
        }
        let _ = read_all(&bytes[..length]);
    }
}
