//! Bundles: messages that are kept, and done together at the commit (OpenFlow 1.5.1, section
//! 6.8).
//!
//! 1. A bundle is done whole or not at all, whatever its flags say.
//! 2. The error of a message that fails has that message's transaction; the commit fails with
//!    `OFPBFC_MSG_FAILED`.
//! 3. A message that no state of the switch allows is refused when it is added, as Open vSwitch
//!    refuses it: the bundle goes on without it.
//! 4. Bundles are bounded in number and bytes, and forgotten if they stay untouched.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use thalweg_openflow::message::Message;
use thalweg_openflow::message::bundle::{BundleAdd, BundleControl, BundleControlType};
use thalweg_openflow::{ErrorCode, Refusal, decode, refuse, xid_of};

use super::Agent;
use super::changes::change_of;
use super::link::{Bundle, Link};
use crate::openflow::target::{Change, Target, Transaction};

impl<T: Target> Agent<T> {
    pub(super) fn bundle_control(
        &mut self,
        link: &mut Link,
        xid: u32,
        bytes: &Bytes,
        control: &BundleControl,
        now: Duration,
    ) -> Result<(), Refusal> {
        let kind = match control.kind {
            BundleControlType::OpenRequest => {
                self.open_bundle(link, bytes, control, now)?;
                BundleControlType::OpenReply
            }
            BundleControlType::CloseRequest => {
                link.close_bundle(control, now)?;
                BundleControlType::CloseReply
            }
            BundleControlType::CommitRequest => {
                self.commit(link, xid, control, now)?;
                BundleControlType::CommitReply
            }
            BundleControlType::DiscardRequest => {
                if link.remove_bundle(control.bundle).is_none() {
                    return Err(unknown(control.bundle));
                }
                BundleControlType::DiscardReply
            }
            _ => {
                let what = "a reply from a controller";
                return Err(refuse(ErrorCode::OFPBFC_BAD_TYPE, what));
            }
        };
        let reply = BundleControl {
            bundle: control.bundle,
            kind,
            // As Open vSwitch replies; OpenFlow does not say.
            flags: 0,
            properties: Bytes::new(),
        };
        link.session.send(xid, &Message::BundleControl(reply));
        Ok(())
    }

    fn open_bundle(
        &mut self,
        link: &mut Link,
        bytes: &Bytes,
        control: &BundleControl,
        now: Duration,
    ) -> Result<(), Refusal> {
        if link.remove_bundle(control.bundle).is_some() {
            let what = format!("bundle {} was open, and is now forgotten", control.bundle);
            return Err(refuse(ErrorCode::OFPBFC_BAD_ID, what));
        }
        self.add_bundle(link, control.bundle, control.flags, bytes.clone(), now)
    }

    fn add_bundle(
        &mut self,
        link: &mut Link,
        id: u32,
        flags: u16,
        opening: Bytes,
        now: Duration,
    ) -> Result<(), Refusal> {
        if link.bundles.len() >= self.config.bundles {
            let what = format!("{} bundles are open", link.bundles.len());
            return Err(refuse(ErrorCode::OFPBFC_OUT_OF_BUNDLES, what));
        }
        let bundle = Bundle {
            flags,
            is_closed: false,
            opening,
            messages: Vec::new(),
            bytes: 0,
            used_at: now,
        };
        link.bundles.insert(id, bundle);
        Ok(())
    }

    pub(super) fn bundle_add(
        &mut self,
        link: &mut Link,
        xid: u32,
        add: BundleAdd,
        now: Duration,
    ) -> Result<(), Refusal> {
        link.changes.take(now);
        if !link.bundles.contains_key(&add.bundle) {
            self.add_bundle(link, add.bundle, add.flags, add.message.clone(), now)?;
        }
        let (version, context) = (link.version(), link.session.context);
        let room = self.config.bundle_bytes.saturating_sub(link.bundle_bytes);
        let bundle = link.bundles.get_mut(&add.bundle);
        let bundle = bundle.ok_or_else(|| unknown(add.bundle))?;
        if bundle.is_closed || bundle.flags != add.flags {
            let code = match bundle.is_closed {
                true => ErrorCode::OFPBFC_BUNDLE_CLOSED,
                false => ErrorCode::OFPBFC_BAD_FLAGS,
            };
            link.remove_bundle(add.bundle);
            return Err(refuse(code, "a message for a bundle that cannot have it"));
        }
        if xid_of(&add.message) != xid {
            let what = "the message has another transaction than the one around it";
            return Err(refuse(ErrorCode::OFPBFC_MSG_BAD_XID, what));
        }
        let frame = decode(&add.message, context)?;
        if frame.version != version {
            let what = format!("a message of OpenFlow {}", frame.version);
            return Err(refuse(ErrorCode::OFPBFC_BAD_VERSION, what));
        }
        let change = change_of(frame.message).map_err(|_| {
            let what = "a message that no bundle can have";
            refuse(ErrorCode::OFPBFC_MSG_UNSUP, what)
        })?;
        let bytes = add.message.len();
        if bytes > room {
            let what = "the bundles of the connection have no more room";
            return Err(refuse(ErrorCode::OFPBFC_MSG_TOO_MANY, what));
        }
        self.target.check(version, &change)?;
        bundle.messages.push((add.message, change));
        bundle.bytes += bytes;
        bundle.used_at = now;
        link.bundle_bytes += bytes;
        Ok(())
    }

    fn commit(
        &mut self,
        link: &mut Link,
        xid: u32,
        control: &BundleControl,
        now: Duration,
    ) -> Result<(), Refusal> {
        let bundle = link.remove_bundle(control.bundle);
        let bundle = bundle.ok_or_else(|| unknown(control.bundle))?;
        if bundle.flags != control.flags {
            let what = "the bundle was opened with other flags";
            return Err(refuse(ErrorCode::OFPBFC_BAD_FLAGS, what));
        }
        if bundle.messages.is_empty() {
            return Ok(());
        }
        let (messages, changes): (Vec<Bytes>, Vec<Change>) = bundle.messages.into_iter().unzip();
        let transaction = Transaction {
            version: link.version(),
            changes,
        };
        let transactions: Arc<[Transaction]> = Arc::new([transaction]);
        let result = self.target.change(transactions.clone()).pop();
        match result {
            Some(Ok(outcome)) => {
                self.changes_done += 1;
                link.flow_mods.count(&transactions[0].changes, now);
                self.tell_flows(Some((link, xid)), &outcome.flows);
                self.forward(link, xid, &transactions[0]);
                Ok(())
            }
            Some(Err(failure)) => {
                self.changes_refused += 1;
                if let Some(offending) = messages.get(failure.index) {
                    link.refuse(&failure.refusal, offending);
                }
                Err(refuse(ErrorCode::OFPBFC_MSG_FAILED, failure.refusal.what))
            }
            None => Err(refuse(
                ErrorCode::OFPBFC_UNKNOWN,
                "the switch gave no answer",
            )),
        }
    }
}

fn unknown(bundle: u32) -> Refusal {
    refuse(
        ErrorCode::OFPBFC_BAD_ID,
        format!("there is no bundle {bundle}"),
    )
}

impl Link {
    fn close_bundle(&mut self, control: &BundleControl, now: Duration) -> Result<(), Refusal> {
        let bundle = self.bundles.get_mut(&control.bundle);
        let bundle = bundle.ok_or_else(|| unknown(control.bundle))?;
        let code = match (bundle.is_closed, bundle.flags == control.flags) {
            (true, _) => ErrorCode::OFPBFC_BUNDLE_CLOSED,
            (_, false) => ErrorCode::OFPBFC_BAD_FLAGS,
            (false, true) => {
                bundle.is_closed = true;
                bundle.used_at = now;
                return Ok(());
            }
        };
        self.remove_bundle(control.bundle);
        Err(refuse(
            code,
            "the bundle cannot be closed, and is now forgotten",
        ))
    }

    fn remove_bundle(&mut self, id: u32) -> Option<Bundle> {
        let bundle = self.bundles.remove(&id)?;
        self.bundle_bytes -= bundle.bytes;
        Some(bundle)
    }

    /// Forgets bundles untouched for `timeout`; returns when the next one is due.
    pub(super) fn expire_bundles(&mut self, now: Duration, timeout: Duration) -> Option<Duration> {
        let is_over = |bundle: &Bundle| now.saturating_sub(bundle.used_at) >= timeout;
        let over: Vec<u32> = self
            .bundles
            .iter()
            .filter(|(_, bundle)| is_over(bundle))
            .map(|(id, _)| *id)
            .collect();
        for id in over {
            if let Some(bundle) = self.remove_bundle(id) {
                let timed_out = refuse(ErrorCode::OFPBFC_TIMEOUT, format!("bundle {id}"));
                self.refuse(&timed_out, &bundle.opening);
            }
        }
        let due = self.bundles.values().map(|bundle| bundle.used_at + timeout);
        due.min()
    }
}
