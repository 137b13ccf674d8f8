//! Catches signals, to be polled between two looks at the switch.
//!
//! Uncaught, SIGUSR1 and SIGUSR2 would end the process; here they ask for a line of totals.

use std::sync::mpsc::{Receiver, Sender, channel};

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use thalweg_switch::Interrupter;

/// What a signal requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Signal {
    /// End: SIGINT or SIGTERM.
    End,
    /// Read the configuration and the rules again: SIGHUP.
    Reload,
    /// Print the state: SIGUSR1 or SIGUSR2.
    Report,
}

/// Signals that are caught, and not looked at yet.
pub(crate) struct CaughtSignals(Signals);

/// The signals caught since [`catch`].
pub(crate) struct Caught {
    signals: Receiver<Signal>,
    interrupter: Sender<Interrupter>,
}

/// Catches signals from now on; [`CaughtSignals::watch`] starts the thread that looks at them.
///
/// # Errors
/// If the operating system refuses.
pub(crate) fn catch() -> Result<CaughtSignals> {
    let caught = Signals::new([SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2]);
    Ok(CaughtSignals(caught.context("cannot catch signals")?))
}

impl CaughtSignals {
    /// Looks at the signals, on a separate thread.
    ///
    /// # Errors
    /// If there can be no thread.
    pub(crate) fn watch(self) -> Result<Caught> {
        let CaughtSignals(mut caught) = self;
        let (sender, signals) = channel();
        let (interrupter, interrupters) = channel::<Interrupter>();
        let forward = move || {
            let mut interrupter = None;
            for signal in caught.forever() {
                let signal = match signal {
                    SIGHUP => Signal::Reload,
                    SIGUSR1 | SIGUSR2 => Signal::Report,
                    _ => Signal::End,
                };
                if sender.send(signal).is_err() {
                    return;
                }
                interrupter = interrupters.try_recv().ok().or(interrupter);
                if let Some(interrupter) = &interrupter {
                    interrupter.interrupt();
                }
            }
        };
        let thread = std::thread::Builder::new().name("signals".to_owned());
        thread.spawn(forward).context("cannot catch signals")?;
        Ok(Caught {
            signals,
            interrupter,
        })
    }
}

impl Caught {
    /// Lets signals interrupt the waiting of a switch.
    pub(crate) fn interrupt(&self, interrupter: Interrupter) {
        // If the thread has ended, no more signals arrive.
        let _ = self.interrupter.send(interrupter);
    }

    /// The next signal, if there is one.
    pub(crate) fn next(&self) -> Option<Signal> {
        self.signals.try_recv().ok()
    }
}
