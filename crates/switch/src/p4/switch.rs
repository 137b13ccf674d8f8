//! A switch that runs a P4 program: ports, one worker, and the program of a session.
//!
//! 1. Ports are added and removed between two rounds. A removed port sends and receives
//!    nothing, its counts stay in the totals, and the thread that removed it closes it.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use thalweg_control::Notices;
use thalweg_io::{PortCounters, PortStatus};
use thalweg_p4::Outbox;
use thalweg_packet::{PacketPool, PortId};

use super::duty::{P4Duty, Plugging};
use super::plane::P4Forwarder;
use super::worker_state::{Flags, P4Totals};
use crate::doorbell::Doorbell;
use crate::plugging::status_at_first;
use crate::ports::{Attached, Routes, SwitchPort};
use crate::switch::SwitchError;
use crate::sync::{AtomicBool, JoinHandle, Mutex, Receiver, Sender, bounded, spawn};
use crate::totals::PlugCounters;
use crate::worker::Worker;

/// Limits of a P4 switch.
#[derive(Clone, Copy, Debug)]
pub struct P4Config {
    /// Buffers for packets, including those that ports keep ready.
    pub packets: usize,
    /// Their initial size in bytes; they can grow.
    pub packet_bytes: usize,
}

/// Wakes the worker; created before it, as the program's other end needs it.
#[derive(Clone, Debug)]
pub struct P4Waker(Arc<Flags>);

impl P4Waker {
    /// Creates the waker of a worker that is not started yet.
    ///
    /// # Errors
    /// If the system has no more descriptors.
    pub fn new() -> io::Result<P4Waker> {
        Ok(P4Waker(Arc::new(Flags {
            doorbell: Doorbell::new()?,
            is_stopping: AtomicBool::new(false),
            is_finished: AtomicBool::new(false),
            gone: Mutex::new(Vec::new()),
        })))
    }

    /// Wakes the worker if it sleeps.
    pub fn wake(&self) {
        self.0.doorbell.ring();
    }
}

/// A running P4 switch.
pub struct P4Switch {
    waker: P4Waker,
    worker: Option<JoinHandle<P4Totals>>,
    commands: Sender<Plugging>,
    /// The port handed back, if the request was for one and it exists.
    answers: Receiver<Option<Box<Attached>>>,
    /// Numbers of the current ports.
    present: Vec<PortId>,
    former: BTreeMap<PortId, PortCounters>,
    plugs: PlugCounters,
}

impl P4Switch {
    /// Starts the worker; `start` is the time of [`thalweg_packet::Instant::ZERO`].
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(
        config: P4Config,
        ports: Vec<SwitchPort>,
        waker: P4Waker,
        forwarder: P4Forwarder,
        notices: Notices,
        start: std::time::Instant,
    ) -> io::Result<P4Switch> {
        let numbers: Vec<PortId> = ports.iter().map(|port| port.number).collect();
        let attached = ports.into_iter().map(attached);
        let (commands, commands_out) = bounded(1);
        let (answers_in, answers) = bounded(1);
        let duty = P4Duty {
            flags: waker.0.clone(),
            routes: Routes::new(&numbers, 1),
            commands: commands_out,
            answers: answers_in,
            pool: PacketPool::with_capacity(config.packets, config.packet_bytes),
            outbox: Outbox::new(),
            forwarder,
            notices,
            start,
            totals: P4Totals::default(),
            no_such_port: 0,
            no_buffer: 0,
            training: None,
        };
        let worker = Worker::new(duty, attached.collect());
        let worker = spawn("p4-worker".to_owned(), move || worker.run())?;
        Ok(P4Switch {
            waker,
            worker: Some(worker),
            commands,
            answers,
            present: numbers,
            former: BTreeMap::new(),
            plugs: PlugCounters::default(),
        })
    }

    /// Whether the switch has a port with this number. False for a deleted interface, once
    /// [`P4Switch::look_after_ports`] has seen it.
    pub fn has_port(&self, number: PortId) -> bool {
        self.present.contains(&number)
    }

    /// Removes the ports whose interfaces were deleted.
    pub fn look_after_ports(&mut self) {
        let gone = match self.waker.0.gone.lock() {
            Ok(mut gone) => std::mem::take(&mut *gone),
            Err(_) => return, // The worker has panicked, which is reported elsewhere.
        };
        for number in gone {
            self.plugs.gone += u64::from(self.detach(number));
        }
    }

    /// Adds a port.
    ///
    /// # Errors
    /// If a port with this number exists.
    pub fn attach(&mut self, port: SwitchPort) -> Result<(), SwitchError> {
        let number = port.number;
        if self.has_port(number) {
            return Err(SwitchError::DuplicatePort { number });
        }
        self.ask(Plugging::Attach(Box::new(attached(port))));
        self.present.push(number);
        self.plugs.attached += 1;
        Ok(())
    }

    /// Removes a port; returns whether it existed. It is closed when this returns.
    pub fn detach(&mut self, number: PortId) -> bool {
        if !self.has_port(number) {
            return false;
        }
        self.present.retain(|present| *present != number);
        if let Some(port) = self.ask(Plugging::Detach(number)) {
            let counters = port.port.counters();
            self.former.entry(number).or_default().add(&counters);
        }
        self.plugs.detached += 1;
        true
    }

    /// Sends a request to the worker and waits for the answer; `None` if the worker has ended.
    fn ask(&self, command: Plugging) -> Option<Box<Attached>> {
        self.commands.send(command).ok()?;
        self.waker.wake();
        self.answers.recv().ok()?
    }

    /// Whether every source has delivered all its packets.
    pub fn is_finished(&self) -> bool {
        self.waker.0.is_finished.load(Ordering::SeqCst)
    }

    /// Whether the worker has ended before it was told to, because it panicked.
    pub fn has_failed(&self) -> bool {
        self.worker.as_ref().is_some_and(JoinHandle::is_finished)
    }

    /// Stops the worker and returns its totals.
    ///
    /// # Panics
    /// If the worker has panicked.
    pub fn stop(mut self) -> P4Totals {
        self.waker.0.is_stopping.store(true, Ordering::SeqCst);
        self.waker.wake();
        let worker = self.worker.take().expect("it is taken once");
        match worker.join() {
            Ok(mut totals) => {
                totals.plugs = self.plugs;
                for (number, counters) in &self.former {
                    let mut ports = totals.ports.iter_mut();
                    match ports.find(|(present, ..)| present == number) {
                        Some((_, _, sum)) => sum.add(counters),
                        None => totals.ports.push((*number, PortStatus::Gone, *counters)),
                    }
                }
                totals
            }
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

impl Drop for P4Switch {
    fn drop(&mut self) {
        self.waker.0.is_stopping.store(true, Ordering::SeqCst);
        self.waker.wake();
        if let Some(worker) = self.worker.take() {
            let _ = worker.join();
        }
    }
}

fn attached(port: SwitchPort) -> Attached {
    let SwitchPort {
        number,
        mut port,
        is_source,
    } = port;
    let status = status_at_first(&mut *port);
    Attached {
        is_source,
        ..Attached::new(number, port, status)
    }
}
