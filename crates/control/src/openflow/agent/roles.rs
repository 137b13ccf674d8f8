//! Roles: one primary controller at the most, elected by generations (OpenFlow 1.5.1, section
//! 6.3.6).

use thalweg_openflow::message::Message;
use thalweg_openflow::message::connection::{Role, RoleMessage, RoleStatus};
use thalweg_openflow::{ErrorCode, Refusal, refuse};

use super::Agent;
use super::link::Link;
use crate::openflow::target::Target;

/// A role changed because another controller became the primary.
const ANOTHER_IS_PRIMARY: u8 = 0;

impl<T: Target> Agent<T> {
    pub(super) fn set_role(
        &mut self,
        link: &mut Link,
        xid: u32,
        asked: RoleMessage,
    ) -> Result<(), Refusal> {
        if asked.role != Role::NoChange {
            let is_election = matches!(asked.role, Role::Primary | Role::Secondary);
            if let Some(generation) = asked.generation.filter(|_| is_election) {
                self.elect(generation)?;
            }
            if asked.role == Role::Primary {
                self.demote();
            }
            link.role = asked.role;
        }
        let reply = RoleMessage {
            is_nicira: asked.is_nicira,
            role: link.role,
            generation: self.generation,
        };
        link.session.send(xid, &Message::RoleReply(reply));
        Ok(())
    }

    /// Refuses a generation older than one that was seen.
    fn elect(&mut self, generation: u64) -> Result<(), Refusal> {
        // Generations wrap around, so their distance counts.
        let is_stale = |known: u64| (generation.wrapping_sub(known) as i64) < 0;
        if self.generation.is_some_and(is_stale) {
            let what = format!("generation {generation} is over");
            return Err(refuse(ErrorCode::OFPRRFC_STALE, what));
        }
        self.generation = Some(generation);
        Ok(())
    }

    /// Makes the present primary a secondary.
    fn demote(&mut self) {
        let status = RoleStatus {
            role: Role::Secondary,
            reason: ANOTHER_IS_PRIMARY,
            generation: self.generation,
        };
        for link in self.links.values_mut() {
            if link.role == Role::Primary {
                link.role = Role::Secondary;
                link.tell_role(status);
            }
        }
    }
}
