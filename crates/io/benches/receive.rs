//! Compares the ways to receive on a veth pair, by packet sockets and AF_XDP: delay, rate, cost.
//!
//! ```text
//! sudo cargo bench -p thalweg-io --features privileged-tests --bench receive
//! ```
//!
//! Two threads run on two processors, if there are two, with a cable between two network
//! namespaces made for the purpose. One thread sends frames by a packet socket, at a
//! given rate or in full bursts as fast as it can. Each frame carries the time at which it was
//! sent. The other thread receives. When nothing is there it sleeps on the port's descriptor,
//! as a worker does. Rows:
//!
//! - `alone`: one thread, one frame at a time, from before the send call to after the receive
//!   call. No other thread has to wake up.
//! - `N/s`: both threads, one frame each 1/N s.
//! - `flood`: as many frames as can be sent. The delay is that of full queues, so it is not
//!   shown.
//!
//! The delay is the median of all frames of a sample. Processor time is the receiving
//! thread's. The kernel's work for an arriving frame runs on the sending thread's processor
//! here, so it shows in the number of frames sent. Each cell is the median of the samples,
//! with the least and greatest in brackets. The ways take turns, so that slow periods
//! affect all.

#[path = "../tests/namespace/mod.rs"]
#[allow(dead_code)]
mod namespace;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use namespace::{Cable, eventually};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use thalweg_io::{
    AfPacketPort, AfXdpPort, BURST, DropReason, Port, PortStatus, ReceiveMethod, XdpMode,
    XdpSettings,
};
use thalweg_packet::{Packet, PacketPool, PortId};

const SAMPLES: usize = 7;
const SAMPLE_TIME: Duration = Duration::from_millis(500);
/// Kept low because each frame may wait for a timer.
const FRAMES_ALONE: usize = 300;
/// Time for the last frames of a sample to arrive.
const SETTLE_TIME: Duration = Duration::from_millis(20);

/// More frames than a sample has.
const MOST_FRAMES: usize = 4 << 20;
/// The place of the time stamp, behind the Ethernet header.
const STAMP: std::ops::Range<usize> = 14..22;
/// The benchmark does not use receive times.
const NO_TIME: thalweg_packet::Instant = thalweg_packet::Instant::ZERO;

/// The load of one row of the table.
#[derive(Clone, Copy)]
enum Load {
    Alone,
    PerSecond(u32),
    Flood,
}

impl Load {
    fn name(self) -> String {
        match self {
            Load::Alone => "alone".to_owned(),
            Load::PerSecond(rate) => format!("{rate}/s"),
            Load::Flood => "flood".to_owned(),
        }
    }
}

/// How the port that receives does it.
#[derive(Clone, Copy)]
enum Way {
    Socket(ReceiveMethod),
    Xdp(XdpMode),
}

const WAYS: [Way; 4] = [
    Way::Socket(ReceiveMethod::Messages),
    Way::Socket(ReceiveMethod::Ring),
    Way::Xdp(XdpMode::Native),
    Way::Xdp(XdpMode::Generic),
];

impl Way {
    fn name(self) -> String {
        match self {
            Way::Socket(method) => method.to_string(),
            Way::Xdp(mode) => format!("xdp {mode}"),
        }
    }

    fn open(self, interface: &str) -> Box<dyn Port> {
        match self {
            Way::Socket(method) => {
                let port = AfPacketPort::open(PortId(1), interface, method);
                Box::new(port.expect("it exists"))
            }
            Way::Xdp(mode) => {
                let settings = XdpSettings {
                    mode,
                    ..XdpSettings::default()
                };
                let port = AfXdpPort::open(PortId(1), interface, settings);
                Box::new(port.expect("a veth pair has both modes"))
            }
        }
    }
}

/// The results of one sample.
#[derive(Clone, Copy, Default)]
struct Sample {
    delay_us: f64,
    sent_per_second: f64,
    received_per_second: f64,
    lost_percent: f64,
    processor_ns: f64,
}

/// Two open ports on the ends of a cable.
struct Bench {
    left: Box<dyn Port>,
    right: Box<dyn Port>,
    frame: Vec<u8>,
    start: Instant,
    _cable: Cable,
}

fn main() {
    println!(
        "{:<11} {:>6} {:>9} | {:>22} | {:>22} | {:>22} | {:>17} | {:>22}",
        "way", "bytes", "load", "delay us", "sent k/s", "received k/s", "lost %", "processor ns"
    );
    for frame_bytes in [60, 1514] {
        let loads = [
            Load::Alone,
            // Not a multiple of the ring timer's rate.
            Load::PerSecond(997),
            Load::PerSecond(10_000),
            Load::PerSecond(100_000),
            Load::Flood,
        ];
        for load in loads {
            let mut samples = WAYS.map(|_| Vec::new());
            for _ in 0..SAMPLES {
                for (way, samples) in WAYS.into_iter().zip(&mut samples) {
                    samples.push(Bench::new(way, frame_bytes).run(load));
                }
            }
            for (way, samples) in WAYS.into_iter().zip(&samples) {
                print_row(way, frame_bytes, load, samples);
            }
        }
    }
}

fn print_row(way: Way, frame_bytes: usize, load: Load, samples: &[Sample]) {
    let cell = |digits: usize, value: fn(&Sample) -> f64| {
        let mut values: Vec<f64> = samples.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        let (least, most) = (values[0], values[values.len() - 1]);
        let median = values[values.len() / 2];
        format!("{median:.digits$} ({least:.digits$}-{most:.digits$})")
    };
    let delay = match load {
        Load::Flood => "-".to_owned(),
        _ => cell(1, |sample| sample.delay_us),
    };
    println!(
        "{:<11} {frame_bytes:>6} {:>9} | {delay:>22} | {:>22} | {:>22} | {:>17} | {:>22}",
        way.name(),
        load.name(),
        cell(0, |sample| sample.sent_per_second / 1e3),
        cell(0, |sample| sample.received_per_second / 1e3),
        cell(1, |sample| sample.lost_percent),
        cell(0, |sample| sample.processor_ns),
    );
}

impl Bench {
    fn new(way: Way, frame_bytes: usize) -> Bench {
        let cable = Cable::new("bench");
        let sender = Way::Socket(ReceiveMethod::Messages);
        let mut left = cable.left.enter(|| sender.open("va"));
        let mut right = cable.right.enter(|| way.open("vb"));
        for port in [&mut left, &mut right] {
            eventually("the link is up", || port.status() == PortStatus::Up);
        }
        let mut frame = vec![0; frame_bytes];
        frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 0x88, 0xb5]);
        Bench {
            left,
            right,
            frame,
            start: Instant::now(),
            _cable: cable,
        }
    }

    fn run(mut self, load: Load) -> Sample {
        if let Load::Alone = load {
            return self.run_alone();
        }
        let is_over = AtomicBool::new(false);
        let (start, frame) = (self.start, &self.frame);
        let (left, right) = (&mut *self.left, &mut *self.right);
        let ((sent, elapsed), received) = std::thread::scope(|scope| {
            let receiver = scope.spawn(|| {
                stay_on_processor(1);
                receive_all(right, start, &is_over)
            });
            let sender = scope.spawn(|| {
                stay_on_processor(0);
                let before = Instant::now();
                let sent = send_all(left, start, frame, load);
                (sent, before.elapsed())
            });
            let sent = sender.join().expect("the sender panicked");
            std::thread::sleep(SETTLE_TIME);
            is_over.store(true, Ordering::Relaxed);
            (sent, receiver.join().expect("the receiver panicked"))
        });
        let dropped = self.right.counters().drops.count(DropReason::KernelDropped);
        let seconds = elapsed.as_secs_f64();
        let count = received.delays_us.len() as f64;
        assert_eq!(
            received.delays_us.len() as u64 + dropped,
            sent,
            "all are accounted for"
        );
        Sample {
            delay_us: median(received.delays_us),
            sent_per_second: sent as f64 / seconds,
            received_per_second: count / seconds,
            lost_percent: dropped as f64 / sent as f64 * 100.0,
            processor_ns: received.processor_time.as_nanos() as f64 / count,
        }
    }

    fn run_alone(&mut self) -> Sample {
        let mut pool = PacketPool::with_capacity(64, 2048);
        let (mut burst, mut delays_us) = (Vec::new(), Vec::new());
        let (before, processor_before) = (Instant::now(), processor_time());
        for _ in 0..FRAMES_ALONE {
            send(&mut *self.left, &mut pool, self.start, &self.frame, 1);
            loop {
                self.right.receive(&mut pool, &mut burst, NO_TIME);
                if !burst.is_empty() {
                    break;
                }
                wait(&*self.right);
            }
            add_delays(&mut delays_us, &burst, self.start);
            pool.put_burst(&mut burst);
        }
        let rate = FRAMES_ALONE as f64 / before.elapsed().as_secs_f64();
        let processor_time = processor_time() - processor_before;
        Sample {
            delay_us: median(delays_us),
            sent_per_second: rate,
            received_per_second: rate,
            lost_percent: 0.0,
            processor_ns: processor_time.as_nanos() as f64 / FRAMES_ALONE as f64,
        }
    }
}

struct Reception {
    delays_us: Vec<f32>,
    processor_time: Duration,
}

fn receive_all(port: &mut dyn Port, start: Instant, is_over: &AtomicBool) -> Reception {
    let mut pool = PacketPool::with_capacity(256, 2048);
    let mut burst = Vec::new();
    let mut delays_us = Vec::with_capacity(MOST_FRAMES);
    let before = processor_time();
    loop {
        port.receive(&mut pool, &mut burst, NO_TIME);
        if !burst.is_empty() {
            add_delays(&mut delays_us, &burst, start);
            pool.put_burst(&mut burst);
        } else if is_over.load(Ordering::Relaxed) {
            break;
        } else {
            wait(port);
        }
    }
    Reception {
        delays_us,
        processor_time: processor_time() - before,
    }
}

/// Sends for the duration of a sample; returns the number of frames sent.
fn send_all(port: &mut dyn Port, start: Instant, frame: &[u8], load: Load) -> u64 {
    let mut pool = PacketPool::with_capacity(64, 2048);
    let begun = Instant::now();
    let mut count = 0;
    while begun.elapsed() < SAMPLE_TIME {
        match load {
            Load::PerSecond(rate) => {
                let due = Duration::from_secs(1) * count / rate;
                if begun.elapsed() < due {
                    std::hint::spin_loop();
                    continue;
                }
                send(port, &mut pool, start, frame, 1);
                count += 1;
            }
            Load::Alone | Load::Flood => {
                send(port, &mut pool, start, frame, BURST);
                count += BURST as u32;
            }
        }
    }
    port.counters().sent_packets
}

/// Sends `count` frames that carry the time.
fn send(port: &mut dyn Port, pool: &mut PacketPool, start: Instant, frame: &[u8], count: usize) {
    let mut burst = Vec::with_capacity(count);
    pool.take_burst(&mut burst, count);
    let now = start.elapsed().as_nanos() as u64;
    for packet in &mut burst {
        packet.fill(frame);
        packet.bytes_mut()[STAMP].copy_from_slice(&now.to_ne_bytes());
    }
    port.send(pool, &mut burst);
}

fn add_delays(delays_us: &mut Vec<f32>, burst: &[Packet], start: Instant) {
    let now = start.elapsed().as_nanos() as u64;
    delays_us.extend(burst.iter().map(|packet| {
        let stamp = packet.bytes()[STAMP].try_into().expect("eight bytes");
        (now - u64::from_ne_bytes(stamp)) as f32 / 1e3
    }));
}

/// Waits until a frame arrives, but only briefly.
fn wait(port: &dyn Port) {
    let descriptor = port.descriptor().expect("a socket has one");
    let timeout = Timespec::try_from(SETTLE_TIME / 4).expect("it is short");
    let mut list = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
    poll(&mut list, Some(&timeout)).expect("polling needs nothing");
}

/// Pins this thread to the `index`-th processor it may use, if it may use that many.
fn stay_on_processor(index: usize) {
    let allowed = sched_getaffinity(None).expect("asking needs nothing");
    let mut numbers = (0..CpuSet::MAX_CPU).filter(|number| allowed.is_set(*number));
    if let Some(number) = numbers.nth(index) {
        let mut one = CpuSet::new();
        one.set(number);
        sched_setaffinity(None, &one).expect("it is allowed");
    }
}

/// The processor time that this thread has used.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("it is not negative")
}

fn median(mut values: Vec<f32>) -> f64 {
    values.sort_by(f32::total_cmp);
    values
        .get(values.len() / 2)
        .map_or(0.0, |value| f64::from(*value))
}
