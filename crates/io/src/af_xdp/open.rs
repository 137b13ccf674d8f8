//! Opens an AF_XDP port: finds the mode, and says why it is not a better one.
//!
//! ```text
//!   for each mode, the best first (only the one that was asked for, if one was)
//!     sockets for all queues; then the program, which gives them frames
//!     in vain: the next mode, with a remark; but a refusal that no mode changes ends the search
//! ```

use std::io;

use thalweg_packet::PortId;

use super::{AfXdpPort, Parts, XdpMode, XdpSettings};
use crate::af_packet::{claim, find_ethernet};
use crate::links::receive_queues;
use crate::sys::{
    Claim, CopyMode, Interface, LARGE_CHUNK_BYTES, Refused, SMALL_CHUNK_BYTES, XdpLink, XdpSockets,
    XdpSocketsConfig, longest_frame, promiscuous,
};
use crate::{Error, PortCounters};

pub(super) const CAPABILITY: &str = "CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF";

/// What a frame has around the payload that the MTU limits: a header and two tags.
const AROUND_BYTES: usize = 14 + 2 * 4;

/// The longest MTU whose frames fit into a chunk.
pub(super) const MOST_MTU: usize = longest_frame(LARGE_CHUNK_BYTES) - AROUND_BYTES;

const ATTACHING: &str = "attaching a program";

impl AfXdpPort {
    /// Opens the port on the interface called `interface`.
    ///
    /// The interface is looked up in this thread's network namespace.
    ///
    /// # Errors
    /// If there is no such interface, it is not Ethernet, its frames are too long, another port or
    /// program has it, it lacks the mode, or this is not permitted.
    pub fn open(number: PortId, interface: &str, settings: XdpSettings) -> Result<Self, Error> {
        let name = interface;
        let interface = find_ethernet(name, CAPABILITY)?;
        let claim = claim(name, &interface, CAPABILITY)?;
        let parts = Parts::open(name, &interface, settings)?;
        Ok(AfXdpPort::of(number, interface, claim, parts))
    }

    /// Makes a port of its parts, on an interface that is claimed for it.
    pub(super) fn of(number: PortId, interface: Interface, claim: Claim, parts: Parts) -> Self {
        AfXdpPort {
            number,
            interface,
            parts,
            _claim: claim,
            counters: PortCounters::default(),
            keeps_whole: false,
        }
    }
}

impl Parts {
    /// Opens what a port on the interface called `name` needs, which is claimed already.
    pub(super) fn open(
        name: &str,
        interface: &Interface,
        settings: XdpSettings,
    ) -> Result<Parts, Error> {
        let failed = |action| move |e| Error::from_system(action, name, CAPABILITY, e);
        let mtu_bytes = interface.mtu().map_err(failed("asking its MTU"))? as usize;
        let chunk_bytes = chunk_for(mtu_bytes).ok_or_else(|| Error::XdpMtu {
            interface: name.to_owned(),
            mtu_bytes,
            most_bytes: MOST_MTU,
        })?;
        let existing = queues_of(interface).map_err(failed("asking its queues"))?;
        let queues = settings.queues.unwrap_or(existing);
        if !(1..=existing.min(XdpSettings::MOST_QUEUES)).contains(&queues) {
            return Err(Error::XdpQueues {
                interface: name.to_owned(),
                wanted: queues,
                existing,
            });
        }
        let keeper = promiscuous(interface.index()).map_err(failed("making it promiscuous"))?;
        let mut remarks = Vec::new();
        let config = |mode: XdpMode| XdpSocketsConfig {
            interface_index: interface.index(),
            queues,
            chunk_bytes,
            copy_mode: mode.parts().1,
            busy_poll_us: settings.busy_poll_us,
        };
        let (mode, sockets, link) = first_mode(name, settings.mode, &config, &mut remarks)?;
        remarks.push(match queues {
            1 => format!("AF_XDP, {mode}, on one queue"),
            _ => format!("AF_XDP, {mode}, on {queues} queues"),
        });
        if queues < existing {
            let rest = existing - queues;
            remarks.push(format!("frames of the last {rest} queues stay the host's"));
        }
        remarks.extend(interface.takes_tags_out().then(|| tags_are_lost(name)));
        Ok(Parts {
            mode,
            link,
            sockets,
            _promiscuous: keeper,
            mtu_bytes,
            chunk_bytes: chunk_bytes as usize,
            queues: settings.queues.is_none().then_some(existing),
            remarks,
        })
    }
}

/// The number of queues that frames arrive in.
pub(super) fn queues_of(interface: &Interface) -> io::Result<u32> {
    match interface.receive_queues() {
        Some(queues) => Ok(queues),
        None => receive_queues(interface.index()).map(|queues| queues.max(1)),
    }
}

/// The size of chunks for frames of an MTU; none if they are too long.
fn chunk_for(mtu_bytes: usize) -> Option<u32> {
    let sizes = [SMALL_CHUNK_BYTES, LARGE_CHUNK_BYTES];
    let fits = |size: &u32| mtu_bytes + AROUND_BYTES <= longest_frame(*size);
    sizes.into_iter().find(fits)
}

/// Opens the first mode that the interface has.
fn first_mode(
    name: &str,
    wanted: XdpMode,
    config: &impl Fn(XdpMode) -> XdpSocketsConfig,
    remarks: &mut Vec<String>,
) -> Result<(XdpMode, XdpSockets, XdpLink), Error> {
    let mut copying = None;
    let mut last = None;
    for mode in wanted.attempts() {
        if let Some((mode, Refused { action, error })) = last.take() {
            remarks.push(format!(
                "AF_XDP, {mode}, is not possible: {action} failed: {error}"
            ));
        }
        match open_mode(mode, &config(mode), &mut copying) {
            Ok((sockets, link)) => return Ok((mode, sockets, link)),
            Err(refused) if is_final(&refused) => return Err(error_of(name, mode, refused)),
            Err(refused) => last = Some((mode, refused)),
        }
    }
    let (mode, refused) = last.expect("every mode is an attempt at least");
    Err(error_of(name, mode, refused))
}

/// Opens one mode; sockets of a former attempt that fit are taken from `copying`, or kept there.
fn open_mode(
    mode: XdpMode,
    config: &XdpSocketsConfig,
    copying: &mut Option<XdpSockets>,
) -> Result<(XdpSockets, XdpLink), Refused> {
    let (attach_mode, copy_mode) = mode.parts();
    let sockets = match copying.take() {
        Some(sockets) if copy_mode == CopyMode::Copy => sockets,
        _ => XdpSockets::open(config)?,
    };
    match XdpLink::attach(config.interface_index, attach_mode, &sockets.by_queue()) {
        Ok(link) => Ok((sockets, link)),
        Err(error) => {
            *copying = (copy_mode == CopyMode::Copy).then_some(sockets);
            Err(Refused::at(ATTACHING)(error))
        }
    }
}

/// Whether no other mode would be given either.
fn is_final(refused: &Refused) -> bool {
    match refused.error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES | libc::ENODEV | libc::ENXIO) => true,
        Some(libc::EBUSY | libc::EEXIST) => refused.action == ATTACHING,
        _ => false,
    }
}

/// What a refusal means for a reader.
fn error_of(name: &str, mode: XdpMode, refused: Refused) -> Error {
    let Refused { action, error } = refused;
    let interface = name.to_owned();
    match error.raw_os_error() {
        Some(libc::EBUSY | libc::EEXIST) => Error::XdpTaken { interface },
        Some(libc::EPERM | libc::EACCES | libc::ENODEV | libc::ENXIO) => {
            Error::from_system(action, name, CAPABILITY, error)
        }
        _ => Error::XdpRefused {
            interface,
            mode,
            action,
            source: error,
        },
    }
}

/// Warns of tags that the port does not see.
fn tags_are_lost(name: &str) -> String {
    format!(
        "VLAN tags are kept beside frames, where AF_XDP does not see them: `ethtool -K {name} \
         rxvlan off`, and on a veth pair `txvlan off` at the other end, keep them in the frames"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_as_small_as_the_mtu_allows() {
        for (mtu_bytes, chunk_bytes) in [
            (1500, Some(2048)),
            (1770, Some(2048)),
            (1771, Some(4096)),
            (MOST_MTU, Some(4096)),
            (MOST_MTU + 1, None),
        ] {
            assert_eq!(chunk_for(mtu_bytes), chunk_bytes, "{mtu_bytes}");
        }
        assert_eq!(MOST_MTU, 3818);
    }

    #[test]
    fn refusals_that_every_mode_meets_end_the_search() {
        let refused = |action, number| Refused {
            action,
            error: io::Error::from_raw_os_error(number),
        };
        for (action, number, ends, text) in [
            (ATTACHING, libc::EBUSY, true, "has an XDP program or socket"),
            (
                ATTACHING,
                libc::EEXIST,
                true,
                "has an XDP program or socket",
            ),
            (ATTACHING, libc::EPERM, true, "CAP_BPF"),
            (ATTACHING, libc::EOPNOTSUPP, false, "use `best-effort`"),
            (
                "binding a queue",
                libc::EBUSY,
                false,
                "has an XDP program or socket",
            ),
            ("binding a queue", libc::EINVAL, false, "use `best-effort`"),
        ] {
            let is = is_final(&refused(action, number));
            let said = error_of("e0", XdpMode::Native, refused(action, number)).to_string();
            assert_eq!(is, ends, "{action} {number}");
            assert!(said.contains(text) && said.contains("`e0`"), "{said}");
        }
    }
}
