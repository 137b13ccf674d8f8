//! The program that gives the frames of an interface's queues to sockets, and its attachment.
//!
//! The program is a handful of instructions, written down here and loaded by `bpf(2)`:
//!
//! ```text
//!   r2 = context.rx_queue_index
//!   r1 = map of sockets
//!   r3 = XDP_PASS                     for a queue without a socket: its frames stay the kernel's
//!   r0 = bpf_redirect_map(r1, r2, r3)
//!   return r0
//! ```
//!
//! It is attached by a link. The link ends with its descriptor, so nothing stays on the interface
//! when the process ends, in whatever way.
//!
//! Reference: the kernel's `include/uapi/linux/bpf.h`; `Documentation/bpf/map_xskmap.rst`.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Commands of `bpf(2)`.
const MAP_CREATE: libc::c_long = 0;
const MAP_UPDATE_ELEM: libc::c_long = 2;
const PROG_LOAD: libc::c_long = 5;
const OBJ_GET_INFO_BY_FD: libc::c_long = 15;
const LINK_CREATE: libc::c_long = 28;

/// `BPF_MAP_TYPE_XSKMAP`, `BPF_PROG_TYPE_XDP` and the attach type `BPF_XDP`.
const MAP_TYPE_SOCKETS: u32 = 17;
const PROGRAM_TYPE_XDP: u32 = 6;
const ATTACH_TYPE_XDP: u32 = 37;

/// `XDP_FLAGS_SKB_MODE`, `XDP_FLAGS_DRV_MODE`.
const FLAG_GENERIC: u32 = 1 << 1;
const FLAG_NATIVE: u32 = 1 << 2;

/// `rx_queue_index` in `struct xdp_md`.
const QUEUE_OFFSET: i16 = 16;
const XDP_PASS: i32 = 2;
const REDIRECT_MAP: i32 = 51;
/// `BPF_PSEUDO_MAP_FD`: the constant is a map's descriptor.
const IS_MAP: u8 = 1;

/// Shown by `ip link` and `bpftool`.
const NAME: [u8; 16] = *b"thalweg_xdp\0\0\0\0\0";

/// Where a program gets frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AttachMode {
    /// In the driver, before a frame becomes the kernel's.
    Native,
    /// Behind the driver, on any interface.
    Generic,
}

/// A program that is attached to an interface until this is dropped.
#[derive(Debug)]
pub(crate) struct XdpLink {
    link: OwnedFd,
}

impl XdpLink {
    /// Gives each socket the frames of its queue, which is its place among `sockets`.
    ///
    /// The interface is one of this thread's network namespace.
    pub(crate) fn attach(
        interface_index: i32,
        mode: AttachMode,
        sockets: &[BorrowedFd<'_>],
    ) -> io::Result<XdpLink> {
        let map = socket_map(sockets)?;
        let program = load(&map)?;
        let mut wanted = LinkCreate {
            program: program.as_raw_fd() as u32,
            interface_index: interface_index as u32,
            attach_type: ATTACH_TYPE_XDP,
            flags: match mode {
                AttachMode::Native => FLAG_NATIVE,
                AttachMode::Generic => FLAG_GENERIC,
            },
        };
        // SAFETY: the attributes have no address.
        let link = unsafe { new_descriptor(LINK_CREATE, &mut wanted) }?;
        Ok(XdpLink { link })
    }

    /// Whether the program still is on the interface. Older kernels do not tell without a
    /// capability (`CAP_BPF`, before 5.19); then it counts as there.
    pub(crate) fn is_attached(&self) -> bool {
        let mut info = LinkInfo::default();
        let mut asked = InfoByDescriptor {
            descriptor: self.link.as_raw_fd() as u32,
            info_bytes: size_of::<LinkInfo>() as u32,
            info: std::ptr::from_mut(&mut info).expose_provenance() as u64,
        };
        // SAFETY: the kernel writes at most `info_bytes` bytes of `info`, which lives (2).
        let answer = unsafe { bpf(OBJ_GET_INFO_BY_FD, &mut asked) };
        answer.is_err() || info.interface_index != 0
    }
}

/// Makes a map from queues to sockets.
fn socket_map(sockets: &[BorrowedFd<'_>]) -> io::Result<OwnedFd> {
    let mut wanted = MapCreate {
        map_type: MAP_TYPE_SOCKETS,
        key_bytes: 4,
        value_bytes: 4,
        entries: sockets.len() as u32,
        flags: 0,
    };
    // SAFETY: the attributes have no address.
    let map = unsafe { new_descriptor(MAP_CREATE, &mut wanted) }?;
    for (queue, socket) in (0_u32..).zip(sockets) {
        let value = socket.as_raw_fd() as u32;
        let mut wanted = MapUpdate {
            map: map.as_raw_fd() as u32,
            padding: 0,
            key: std::ptr::from_ref(&queue).expose_provenance() as u64,
            value: std::ptr::from_ref(&value).expose_provenance() as u64,
            flags: 0,
        };
        // SAFETY: the kernel reads four bytes each of `queue` and `value`, which live (2).
        unsafe { bpf(MAP_UPDATE_ELEM, &mut wanted) }?;
    }
    Ok(map)
}

/// Loads the program; it keeps its map.
fn load(map: &OwnedFd) -> io::Result<OwnedFd> {
    let instructions = program(map.as_raw_fd());
    let licence = c"Apache-2.0 OR MIT";
    let mut wanted = ProgramLoad {
        program_type: PROGRAM_TYPE_XDP,
        instruction_count: instructions.len() as u32,
        instructions: instructions.as_ptr().expose_provenance() as u64,
        licence: licence.as_ptr().expose_provenance() as u64,
        name: NAME,
        expected_attach_type: ATTACH_TYPE_XDP,
        ..ProgramLoad::default()
    };
    // SAFETY: the kernel reads the instructions and the licence, which live (2).
    unsafe { new_descriptor(PROG_LOAD, &mut wanted) }
}

/// The program's text.
fn program(map: i32) -> [Instruction; 6] {
    let instruction = |code, target: u8, source: u8, offset, immediate| Instruction {
        code,
        registers: target | source << 4,
        offset,
        immediate,
    };
    [
        instruction(LOAD_WORD, 2, 1, QUEUE_OFFSET, 0),
        // A constant of 64 bits takes two places.
        instruction(LOAD_CONSTANT, 1, IS_MAP, 0, map),
        instruction(0, 0, 0, 0, 0),
        instruction(MOVE_CONSTANT, 3, 0, 0, XDP_PASS),
        instruction(CALL, 0, 0, 0, REDIRECT_MAP),
        instruction(EXIT, 0, 0, 0, 0),
    ]
}

/// `BPF_LDX | BPF_MEM | BPF_W`, `BPF_LD | BPF_IMM | BPF_DW`, `BPF_ALU64 | BPF_MOV | BPF_K`,
/// `BPF_JMP | BPF_CALL`, `BPF_JMP | BPF_EXIT`.
const LOAD_WORD: u8 = 0x61;
const LOAD_CONSTANT: u8 = 0x18;
const MOVE_CONSTANT: u8 = 0xb7;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

/// `struct bpf_insn`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
struct Instruction {
    code: u8,
    /// The target in the low four bits, the source above.
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// The parts of `union bpf_attr` that the commands above read, from their beginning on.
#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
    flags: u32,
}

#[repr(C)]
struct MapUpdate {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[derive(Default)]
#[repr(C)]
struct ProgramLoad {
    program_type: u32,
    instruction_count: u32,
    instructions: u64,
    licence: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface_index: u32,
    expected_attach_type: u32,
}

#[repr(C)]
struct LinkCreate {
    program: u32,
    interface_index: u32,
    attach_type: u32,
    flags: u32,
}

#[repr(C)]
struct InfoByDescriptor {
    descriptor: u32,
    info_bytes: u32,
    info: u64,
}

/// `struct bpf_link_info` of an XDP link.
#[derive(Default)]
#[repr(C)]
struct LinkInfo {
    link_type: u32,
    id: u32,
    program_id: u32,
    padding: u32,
    interface_index: u32,
    rest: u32,
}

/// Calls `bpf(2)` for a command that makes a descriptor.
///
/// # Safety
/// - As for [`bpf`].
/// - The command returns a descriptor that nothing else has.
unsafe fn new_descriptor<T>(command: libc::c_long, attributes: &mut T) -> io::Result<OwnedFd> {
    // SAFETY: this function's contract.
    let descriptor = unsafe { bpf(command, attributes) }?;
    // SAFETY: the call above made the descriptor, and nothing else has it (3).
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Calls `bpf(2)`.
///
/// # Safety
/// - `attributes` are those of the command.
/// - What their addresses point to is borrowed until the call returns, mutably where the kernel
///   writes, with the sizes that the command expects.
unsafe fn bpf<T>(command: libc::c_long, attributes: &mut T) -> io::Result<i32> {
    let (address, size) = (std::ptr::from_mut(attributes), size_of::<T>());
    // SAFETY: `attributes` is borrowed mutably for the call, with its size (1, 2); what it points
    // to is the caller's to guarantee.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, address, size) };
    match i32::try_from(result) {
        Ok(result @ 0..) => Ok(result),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes as the kernel's assembler (`llvm-mc -arch=bpfel`) writes them.
    #[test]
    #[cfg(target_endian = "little")]
    fn the_program_has_the_documented_encoding() {
        let bytes: Vec<u8> = program(0x0102_0304)
            .iter()
            .flat_map(|one| {
                let mut bytes = vec![one.code, one.registers];
                bytes.extend(one.offset.to_le_bytes());
                bytes.extend(one.immediate.to_le_bytes());
                bytes
            })
            .collect();
        let expected = [
            0x61, 0x12, 16, 0, 0, 0, 0, 0, // r2 = *(u32 *)(r1 + 16)
            0x18, 0x11, 0, 0, 4, 3, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, // r1 = map
            0xb7, 0x03, 0, 0, 2, 0, 0, 0, // r3 = 2
            0x85, 0, 0, 0, 51, 0, 0, 0, // call 51
            0x95, 0, 0, 0, 0, 0, 0, 0, // exit
        ];
        assert_eq!(bytes, expected);
        assert_eq!(size_of::<Instruction>(), 8);
    }
}
