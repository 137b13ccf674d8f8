//! The network interfaces of this host: lists them, and watches for changes.
//!
//! A port is bound to one interface for ever, so its owner must open another when an interface
//! of that name appears again. [`LinkWatch`] says when to look, by netlink and off the path of
//! packets.
//!
//! 1. After a change the next wait returns. Messages that the kernel had no room for count as
//!    a change.
//! 2. The content of a message is ignored, since it may be old when read. The woken caller
//!    looks up the current state.
//!
//! Reference: `rtnetlink(7)`, `RTM_NEWLINK` and `RTM_DELLINK`.

use std::fmt;
use std::io;
use std::sync::Arc;

use neli::consts::nl::{NlmF, Nlmsg};
use neli::consts::rtnl::{Ifla, RtAddrFamily, Rtm};
use neli::consts::socket::NlFamily;
use neli::err::SocketError;
use neli::nl::{NlPayload, NlmsghdrBuilder};
use neli::rtnl::{Ifinfomsg, IfinfomsgBuilder};
use neli::socket::synchronous::NlSocketHandle;
use neli::utils::Groups;

use crate::Error;
use crate::sys::Interface;

/// `RTNLGRP_LINK` of `linux/rtnetlink.h`.
const LINK_GROUP: u32 = 1;

/// Sets the MTU of an interface in this thread's network namespace.
///
/// # Errors
/// If there is no such interface, or the kernel refuses.
pub fn set_mtu(interface: &str, mtu_bytes: u32) -> Result<(), Error> {
    let failed = |error| Error::from_system("setting the MTU", interface, "CAP_NET_ADMIN", error);
    let found = Interface::find(interface).map_err(failed)?;
    found.set_mtu(mtu_bytes).map_err(failed)
}

/// Sets the Ethernet address of an interface in this thread's network namespace.
///
/// # Errors
/// If there is no such interface, or the kernel refuses.
pub fn set_address(interface: &str, address: [u8; 6]) -> Result<(), Error> {
    let failed =
        |error| Error::from_system("setting the address", interface, "CAP_NET_ADMIN", error);
    let found = Interface::find(interface).map_err(failed)?;
    found.set_address(address).map_err(failed)
}

/// Waits until interfaces are created, deleted or renamed, or change their state.
///
/// It watches the network namespace of the thread that opened it.
pub struct LinkWatch {
    socket: NlSocketHandle,
}

impl LinkWatch {
    /// Starts to watch for changes.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn open() -> Result<LinkWatch, Error> {
        let socket = connect(Groups::new_groups(&[LINK_GROUP]), "following interfaces")?;
        Ok(LinkWatch { socket })
    }

    /// Waits for a change since the last call, or since the watch was opened.
    ///
    /// # Errors
    /// If the kernel no longer reports changes; another call will not help.
    pub fn wait(&self) -> Result<(), Error> {
        match self.socket.recv_all::<Rtm, Ifinfomsg>() {
            // Invariant 1: an unreadable message counts as a change.
            Ok(_) | Err(SocketError::Msg(_) | SocketError::Ser(_) | SocketError::De(_)) => Ok(()),
            Err(SocketError::Io(error)) => match error.raw_os_error() {
                Some(libc::ENOBUFS | libc::EINTR) => Ok(()),
                _ => Err(refused("following interfaces", &error)),
            },
        }
    }
}

impl fmt::Debug for LinkWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LinkWatch")
    }
}

/// The names of all interfaces in this thread's network namespace, in the kernel's order.
///
/// ```
/// let names = thalweg_io::interfaces().expect("Linux says it");
/// assert!(names.contains(&"lo".to_owned()));
/// ```
///
/// # Errors
/// If the kernel refuses.
pub fn interfaces() -> Result<Vec<String>, Error> {
    const ACTION: &str = "listing interfaces";
    let mut names = Vec::new();
    ask_links(None, |link| {
        let attributes = link.rtattrs().get_attr_handle();
        names.extend(attributes.get_attr_payload_as_with_len::<String>(Ifla::Ifname));
    })
    .map_err(|error| refused(ACTION, &Arc::new(error)))?;
    Ok(names)
}

/// The number of queues that an interface was made with for frames that arrive; 0 if the kernel
/// does not say.
pub(crate) fn receive_queues(index: i32) -> io::Result<u32> {
    let mut queues = 0;
    ask_links(Some(index), |link| {
        let attributes = link.rtattrs().get_attr_handle();
        let told = attributes.get_attr_payload_as::<u32>(Ifla::NumRxQueues);
        queues = told.unwrap_or(queues);
    })?;
    Ok(queues)
}

/// Asks for one interface of this thread's network namespace, or for all.
fn ask_links(index: Option<i32>, mut told: impl FnMut(&Ifinfomsg)) -> io::Result<()> {
    let odd = |what: &dyn fmt::Display| io::Error::other(what.to_string());
    let socket = NlSocketHandle::connect(NlFamily::Route, None, Groups::empty())
        .map_err(|error| system(&error))?;
    let mut asked = IfinfomsgBuilder::default().ifi_family(RtAddrFamily::Unspecified);
    let mut flags = NlmF::REQUEST;
    match index {
        Some(index) => asked = asked.ifi_index(index),
        None => flags |= NlmF::DUMP,
    }
    let asked = asked.build().map_err(|error| odd(&error))?;
    let request = NlmsghdrBuilder::default()
        .nl_type(Rtm::Getlink)
        .nl_flags(flags)
        .nl_payload(NlPayload::Payload(asked));
    let request = request.build().map_err(|error| odd(&error))?;
    socket.send(&request).map_err(|error| odd(&error))?;
    loop {
        let answer = socket.recv_all::<u16, Ifinfomsg>();
        let (messages, _) = answer.map_err(|error| system(&error))?;
        for message in messages.iter() {
            if *message.nl_type() == u16::from(Nlmsg::Done) {
                return Ok(());
            }
            if *message.nl_type() == u16::from(Nlmsg::Error) {
                return Err(odd(&"the kernel refuses to list them"));
            }
            if let Some(link) = message.get_payload() {
                told(link);
            }
            if index.is_some() {
                return Ok(());
            }
        }
    }
}

/// What the system said, as far as netlink's library tells.
fn system(error: &SocketError) -> io::Error {
    match error {
        SocketError::Io(error) => copy_of(error),
        error => io::Error::other(error.to_string()),
    }
}

fn connect(groups: Groups, action: &'static str) -> Result<NlSocketHandle, Error> {
    let socket = NlSocketHandle::connect(NlFamily::Route, None, groups);
    socket.map_err(|error| match error {
        SocketError::Io(error) => refused(action, &error),
        error => refused(action, &Arc::new(io::Error::other(error.to_string()))),
    })
}

fn refused(action: &'static str, error: &Arc<io::Error>) -> Error {
    let source = copy_of(error);
    Error::Netlink { action, source }
}

/// An error that can be passed on of one that is shared.
fn copy_of(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(number) => io::Error::from_raw_os_error(number),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}
