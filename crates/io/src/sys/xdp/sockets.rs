//! The sockets of an interface's queues over one memory, and what the kernel is asked for.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use libc::xdp_desc;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use super::super::{check, option, set_option, socket};
use super::queue::{BadFrame, Flushed, ReceiveQueue, SendQueue, wake_receiver};
use super::ring::{Consumer, Producer};
use super::umem::Umem;

/// The slots of each ring but the fill ring, and the chunks of each queue and of the sender.
const SLOTS: u32 = 2048;
/// Two for each chunk: the kernel shows a frame before it says that it has read the fill ring.
const FILL_SLOTS: u32 = 2 * SLOTS;

/// Bytes of frames that are on their way that the kernel may hold for us.
const SEND_BYTES: libc::c_int = 8 << 20;

/// The most frames that a driver handles in one busy poll.
const POLL_BUDGET: libc::c_int = 64;

/// How often, and after which time, a queue that is still busy is asked for again.
const BUSY_ATTEMPTS: usize = 100;
const PAUSE: Duration = Duration::from_millis(2);

/// Whether the kernel copies frames into and out of the shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CopyMode {
    /// It does; any driver can.
    Copy,
    /// The card reads and writes the memory itself.
    ZeroCopy,
}

/// What the sockets are made for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct XdpSocketsConfig {
    pub(crate) interface_index: i32,
    /// The number of receive queues, from the first one on.
    pub(crate) queues: u32,
    pub(crate) chunk_bytes: u32,
    pub(crate) copy_mode: CopyMode,
    /// How long a call may poll the driver instead of waiting for an interrupt.
    pub(crate) busy_poll_us: Option<u32>,
}

/// What the kernel refused.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) action: &'static str,
    pub(crate) error: io::Error,
}

impl Refused {
    /// Makes an error of an action.
    pub(crate) fn at(action: &'static str) -> impl Fn(io::Error) -> Refused {
        move |error| Refused { action, error }
    }
}

/// The sockets of an interface.
#[derive(Debug)]
pub(crate) struct XdpSockets {
    /// One for each queue; the first one sends too.
    sockets: Vec<OwnedFd>,
    receiving: Vec<ReceiveQueue>,
    sending: SendQueue,
    /// What is ready when any of several sockets is.
    ready: Option<OwnedFd>,
    /// The queue whose turn it is.
    next: usize,
    is_polling: bool,
    umem: Umem,
}

impl XdpSockets {
    /// Makes the sockets and gives them chunks to receive into. No frame arrives before a program
    /// gives it to them.
    pub(crate) fn open(config: &XdpSocketsConfig) -> Result<XdpSockets, Refused> {
        let failed = Refused::at;
        let umem = Umem::new((config.queues + 1) * SLOTS, config.chunk_bytes)
            .map_err(failed("reserving memory for frames"))?;
        let (mut sockets, mut receiving): (Vec<OwnedFd>, Vec<_>) = (Vec::new(), Vec::new());
        let mut sending = None;
        for queue in 0..config.queues {
            let new = new_socket(config)?;
            if queue == 0 {
                set(&new, libc::XDP_UMEM_REG, &umem.registration())
                    .map_err(failed("registering memory for frames"))?;
            }
            let is_first = queue == 0;
            let offsets = make_rings(&new, is_first).map_err(failed("making the rings"))?;
            let side = map_receiving(&new, &offsets, &umem, queue);
            receiving.push(side.map_err(failed("mapping the rings"))?);
            if is_first {
                let places = (0..SLOTS).map(|chunk| umem.place(config.queues * SLOTS + chunk));
                let side = map_sending(&new, &offsets, places, config.copy_mode);
                sending = Some(side.map_err(failed("mapping the rings"))?);
            }
            bind(&new, config, queue, sockets.first()).map_err(failed("binding a queue"))?;
            sockets.push(new);
        }
        let ready = ready_of_any(&sockets).map_err(failed("making an epoll"))?;
        let sending = sending.ok_or(io::ErrorKind::InvalidInput.into());
        Ok(XdpSockets {
            sockets,
            receiving,
            sending: sending.map_err(failed("opening no queue"))?,
            ready,
            next: 0,
            is_polling: config.busy_poll_us.is_some(),
            umem,
        })
    }

    /// The sockets by queue.
    pub(crate) fn by_queue(&self) -> Vec<BorrowedFd<'_>> {
        self.sockets.iter().map(AsFd::as_fd).collect()
    }

    /// Ready when a frame waits.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.ready.as_ref().unwrap_or(&self.sockets[0]).as_fd()
    }

    /// Hands up to `most` frames to `take`, until it returns false: that frame stays.
    ///
    /// Queues take turns, so none waits for another.
    pub(crate) fn receive(
        &mut self,
        most: usize,
        mut take: impl FnMut(Result<&[u8], BadFrame>) -> bool,
    ) {
        let count = self.receiving.len();
        let (mut left, mut is_over) = (most, false);
        for _ in 0..count {
            let queue = self.next;
            let receiving = &mut self.receiving[queue];
            let taken = receiving.receive(&self.umem, left, &mut |frame| {
                let goes_on = take(frame);
                is_over = !goes_on;
                goes_on
            });
            left -= taken;
            if receiving.fill.needs_wakeup() || self.is_polling && taken == 0 {
                // A driver that cannot now is asked again by the next call.
                let _ = wake_receiver(self.sockets[queue].as_fd());
            }
            self.next = (queue + 1) % count;
            if left == 0 || is_over {
                return;
            }
        }
    }

    /// Puts a frame into the first queue's tx ring; false if there is no room.
    pub(crate) fn post(&mut self, bytes: &[u8]) -> bool {
        self.sending.post(&self.umem, bytes)
    }

    /// Makes room for frames to send, before the first is posted.
    pub(crate) fn prepare(&mut self, account: &mut impl FnMut(Flushed, usize)) {
        self.sending.account_for_others(account);
        self.sending.reap(&self.umem);
    }

    /// Has the kernel send what was posted, and says of each frame what became of it.
    pub(crate) fn flush(&mut self, account: &mut impl FnMut(Flushed, usize)) {
        self.sending.flush(self.sockets[0].as_fd(), account);
        self.sending.reap(&self.umem);
    }

    /// Whether the sockets still have their interface.
    pub(crate) fn has_interface(&self) -> bool {
        let answer = wake_receiver(self.sockets[0].as_fd());
        answer.err().and_then(|error| error.raw_os_error()) != Some(libc::ENXIO)
    }

    /// The number of frames that the kernel had no room for since the sockets were made.
    pub(crate) fn dropped(&self) -> u64 {
        // SAFETY: zeros are a value of this structure (1).
        let nothing: libc::xdp_statistics = unsafe { std::mem::zeroed() };
        let counts = self.sockets.iter().map(|socket| {
            let answer = option(socket, libc::SOL_XDP, libc::XDP_STATISTICS, nothing);
            answer.map_or(0, |told| told.rx_dropped + told.rx_ring_full)
        });
        counts.sum()
    }
}

/// Makes a socket with the options that do not depend on its queue.
fn new_socket(config: &XdpSocketsConfig) -> Result<OwnedFd, Refused> {
    let failed = Refused::at;
    let new =
        socket(libc::AF_XDP, libc::SOCK_RAW, 0).map_err(failed("opening an AF_XDP socket"))?;
    let general = |option, value: &libc::c_int| set_option(&new, libc::SOL_SOCKET, option, value);
    general(libc::SO_SNDBUFFORCE, &SEND_BYTES)
        .or_else(|_| general(libc::SO_SNDBUF, &SEND_BYTES))
        .map_err(failed("setting the send buffer"))?;
    if let Some(time_us) = config.busy_poll_us {
        let time_us = libc::c_int::try_from(time_us).unwrap_or(libc::c_int::MAX);
        general(libc::SO_PREFER_BUSY_POLL, &1)
            .and_then(|()| general(libc::SO_BUSY_POLL, &time_us))
            .and_then(|()| general(libc::SO_BUSY_POLL_BUDGET, &POLL_BUDGET))
            .map_err(failed("asking for busy polling"))?;
    }
    Ok(new)
}

/// Makes a socket's rings; returns where their parts are.
fn make_rings(socket: &OwnedFd, sends: bool) -> io::Result<libc::xdp_mmap_offsets> {
    let rings = [
        (libc::XDP_UMEM_FILL_RING, FILL_SLOTS),
        (libc::XDP_UMEM_COMPLETION_RING, SLOTS),
        (libc::XDP_RX_RING, SLOTS),
    ];
    let sending = sends.then_some((libc::XDP_TX_RING, SLOTS));
    for (ring, slots) in rings.into_iter().chain(sending) {
        set(socket, ring, &slots)?;
    }
    // SAFETY: zeros are a value of this structure (1).
    let nothing: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
    let offsets = option(socket, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS, nothing)?;
    match offsets.fr.flags {
        // Before Linux 5.4 the answer is shorter, and rings have no flags.
        0 => Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP)),
        _ => Ok(offsets),
    }
}

/// Maps the receiving side of a socket, and gives the kernel the queue's chunks.
fn map_receiving(
    socket: &OwnedFd,
    offsets: &libc::xdp_mmap_offsets,
    umem: &Umem,
    queue: u32,
) -> io::Result<ReceiveQueue> {
    let fill_offset = libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t;
    let mut fill = Producer::map(socket, fill_offset, offsets.fr, FILL_SLOTS)?;
    let arrived: Consumer<xdp_desc> =
        Consumer::map(socket, libc::XDP_PGOFF_RX_RING, offsets.rx, SLOTS)?;
    for chunk in queue * SLOTS..(queue + 1) * SLOTS {
        let has_room = fill.push(umem.place(chunk));
        assert!(has_room, "the ring is new, and has a slot for each chunk");
    }
    fill.show();
    Ok(ReceiveQueue { fill, arrived })
}

/// Maps the sending side of a socket, which gets the chunks at `places`.
fn map_sending(
    socket: &OwnedFd,
    offsets: &libc::xdp_mmap_offsets,
    places: impl Iterator<Item = u64>,
    copy_mode: CopyMode,
) -> io::Result<SendQueue> {
    let completion_offset = libc::XDP_UMEM_PGOFF_COMPLETION_RING as libc::off_t;
    let outgoing = Producer::map(socket, libc::XDP_PGOFF_TX_RING, offsets.tx, SLOTS)?;
    let completed = Consumer::map(socket, completion_offset, offsets.cr, SLOTS)?;
    let is_zero_copy = copy_mode == CopyMode::ZeroCopy;
    Ok(SendQueue::new(outgoing, completed, places, is_zero_copy))
}

/// Binds a socket to a queue. The kernel frees the queue of a closed socket a little later, so a
/// busy one is tried again for a while.
fn bind(
    socket: &OwnedFd,
    config: &XdpSocketsConfig,
    queue: u32,
    first: Option<&OwnedFd>,
) -> io::Result<()> {
    for _ in 0..BUSY_ATTEMPTS {
        match bind_once(socket, config, queue, first) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => std::thread::sleep(PAUSE),
            result => return result,
        }
    }
    bind_once(socket, config, queue, first)
}

/// Tries it once; all sockets but the first share the first one's memory and mode.
fn bind_once(
    socket: &OwnedFd,
    config: &XdpSocketsConfig,
    queue: u32,
    first: Option<&OwnedFd>,
) -> io::Result<()> {
    let own = match config.copy_mode {
        CopyMode::Copy => libc::XDP_COPY,
        CopyMode::ZeroCopy => libc::XDP_ZEROCOPY,
    };
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: match first {
            None => own | libc::XDP_USE_NEED_WAKEUP,
            Some(_) => libc::XDP_SHARED_UMEM,
        },
        sxdp_ifindex: config.interface_index as u32,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: first.map_or(0, |first| first.as_raw_fd() as u32),
    };
    // SAFETY: `address` is borrowed for the call, which reads its size in bytes (1, 2).
    check(unsafe {
        libc::bind(
            socket.as_raw_fd(),
            std::ptr::from_ref(&address).cast(),
            size_of::<libc::sockaddr_xdp>() as libc::socklen_t,
        )
    })
}

/// A descriptor that is ready when any of several sockets is; none for a single one.
fn ready_of_any(sockets: &[OwnedFd]) -> io::Result<Option<OwnedFd>> {
    if sockets.len() < 2 {
        return Ok(None);
    }
    let ready = epoll::create(CreateFlags::CLOEXEC)?;
    for socket in sockets {
        epoll::add(&ready, socket, EventData::new_u64(0), EventFlags::IN)?;
    }
    Ok(Some(ready))
}

fn set<T>(socket: &OwnedFd, option: i32, value: &T) -> io::Result<()> {
    set_option(socket, libc::SOL_XDP, option, value)
}

/// Has an interface take frames for other addresses than its own, until this is dropped.
pub(crate) fn promiscuous(interface_index: i32) -> io::Result<OwnedFd> {
    let keeper = socket(libc::AF_PACKET, libc::SOCK_RAW, 0)?;
    let membership = libc::packet_mreq {
        mr_ifindex: interface_index,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    let option = libc::PACKET_ADD_MEMBERSHIP;
    set_option(&keeper, libc::SOL_PACKET, option, &membership)?;
    Ok(keeper)
}
