//! Numbers lists of actions, and checks that they are modelled.
//!
//! Rules hold their list as a number. A number is assigned once and never reused, so that old
//! rows keep their meaning; memory holds each list ever seen once.
//!
//! | modelled | refused, by name |
//! | --- | --- |
//! | `output` to a port, `in_port`, `LOCAL`, `TABLE`, controller, field | `all`, `flood`, `normal` |
//! | `set_field`, `load`, `move`, `write_metadata` | `push`, `pop` |
//! | `push_vlan`, `pop_vlan`, `dec_ttl` | `mod_vlan_vid`, `mod_vlan_pcp`, everything of MPLS |
//! | `goto_table`, `resubmit`, `exit`, `note`, nothing | groups, `clone`, action sets |
//!
//! Groups, floods and `normal` read inputs that are not rules; each would need its own
//! relation and a join. Copies and action sets turn a walk into a tree.

use std::collections::HashMap;
use std::sync::{Arc, RwLock};

use thalweg_packet::standard::PKT_MARK;
use thalweg_pipeline::{Action, Actions, Output, Subfield};

/// The most writes and outputs of a list: over [`MAX_STEPS`](crate::MAX_STEPS) steps they stay
/// within the interpreter's own bound on effects.
const MAX_EFFECTS: usize = thalweg_pipeline::interpret::MAX_EFFECTS / crate::MAX_STEPS;

/// The most work of a list, in the interpreter's units: its bound is 65,536 for all steps.
const MAX_WORK: usize = 65_536 / crate::MAX_STEPS;

/// The most bits copied as one number.
const MAX_MOVE_BITS: u16 = 128;

/// A feature that the circuit does not model.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unsupported {
    /// An action of a rule.
    #[error("the query does not model {0}; use a native maintainer for such rules")]
    Action(&'static str),
    /// A list with too many effects or too much work.
    #[error(
        "a list of {effects} writes and sends, {work} units of work, is too long; \
             the query takes {MAX_EFFECTS} and {MAX_WORK}"
    )]
    List {
        /// Its writes and outputs.
        effects: usize,
        /// Its work in the interpreter's units.
        work: usize,
    },
    /// A fragment, in a pipeline whose tables do not see the ports of fragments.
    #[error("the query models fragments only where tables see their ports (mode nx-match)")]
    Fragment,
    /// An input other than rules has changed.
    #[error("the query does not follow changes of {0}; make a new view")]
    Input(&'static str),
    /// Rows of an older layout are invalid in the new one.
    #[error("keys have another layout since this change; make a new view and record again")]
    Layout,
}

/// Lists of actions by number.
#[derive(Debug)]
pub(crate) struct Programs {
    lists: RwLock<Vec<Actions>>,
}

/// The numbers of known lists, for assigning new ones.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    known: HashMap<Actions, u32>,
}

impl Programs {
    /// Creates programs in which number 0 is the empty list.
    pub(crate) fn new() -> Programs {
        Programs {
            lists: RwLock::new(vec![Actions::from([])]),
        }
    }

    /// The list with a number.
    pub(crate) fn get(&self, number: u32) -> Actions {
        let lists = self.lists.read().expect("nobody panics while writing");
        lists[number as usize].clone()
    }

    /// The number of a list; assigns a new one if needed.
    pub(crate) fn number(
        &self,
        numbers: &mut Numbers,
        actions: &Actions,
    ) -> Result<u32, Unsupported> {
        if actions.is_empty() {
            return Ok(0);
        }
        if let Some(number) = numbers.known.get(actions) {
            return Ok(*number);
        }
        check(actions)?;
        let mut lists = self.lists.write().expect("nobody panics while writing");
        let number = u32::try_from(lists.len()).expect("fewer lists than rules ever were");
        lists.push(Arc::clone(actions));
        numbers.known.insert(Arc::clone(actions), number);
        Ok(number)
    }
}

/// Checks that every action of a list is modelled; the error names the first that is not.
pub(crate) fn check(actions: &[Action]) -> Result<(), Unsupported> {
    let (mut effects, mut work) = (0, 0);
    for action in actions {
        work += match action {
            Action::SetField(writes) => 1 + writes.len(),
            Action::Move { source, .. } => 1 + usize::from(source.width_bits()) / 16,
            _ => 1,
        };
        effects += match action {
            Action::SetField(writes) if writes.iter().any(|write| write.field == PKT_MARK) => {
                return Err(Unsupported::Action("writes to pkt_mark"));
            }
            Action::SetField(writes) => writes.len(),
            Action::Move {
                source,
                destination,
            } => check_move(source, destination)?,
            Action::Output(output) => check_output(output)?,
            Action::PushVlan(_) | Action::PopVlan | Action::DecTtl => 1,
            Action::WriteMetadata { .. } => 1,
            Action::Resubmit {
                with_tuple: true, ..
            }
            | Action::Track(_)
            | Action::Untrack => return Err(Unsupported::Action("connections")),
            Action::Resubmit { .. } | Action::Goto(_) | Action::Exit | Action::Note(_) => 0,
            Action::Sample(_) => return Err(Unsupported::Action("sample")),
            Action::CheckLarger(_) => return Err(Unsupported::Action("check_pkt_larger")),
            Action::Learn(_) | Action::FinTimeout { .. } => {
                return Err(Unsupported::Action("learned rules"));
            }
            Action::Conjunction { .. } => return Err(Unsupported::Action("conjunctive matches")),
            Action::Group(_) => return Err(Unsupported::Action("groups")),
            Action::Push(_) | Action::Pop(_) => return Err(Unsupported::Action("the stack")),
            Action::SetVlan { .. } => return Err(Unsupported::Action("mod_vlan_vid and the like")),
            Action::PushMpls(_) | Action::PopMpls(_) | Action::DecMplsTtl => {
                return Err(Unsupported::Action("changes of MPLS labels"));
            }
            Action::Encap(_) | Action::Decap(_) | Action::DecNshTtl => {
                return Err(Unsupported::Action("encap, decap and dec_nsh_ttl"));
            }
            Action::SetQueue(_) | Action::PopQueue => return Err(Unsupported::Action("queues")),
            Action::Multipath(_) | Action::Bundle(_) => {
                return Err(Unsupported::Action("choices among links"));
            }
            Action::DebugRecirculation | Action::DebugSlow => {
                return Err(Unsupported::Action("debug_recirc and debug_slow"));
            }
            Action::Meter(_) => return Err(Unsupported::Action("meters")),
            Action::Clone(_) => return Err(Unsupported::Action("clone")),
            Action::WriteActions(_) | Action::ClearActions => {
                return Err(Unsupported::Action("action sets"));
            }
        };
    }
    if effects > MAX_EFFECTS || work > MAX_WORK {
        return Err(Unsupported::List { effects, work });
    }
    Ok(())
}

fn check_move(source: &Subfield, destination: &Subfield) -> Result<usize, Unsupported> {
    if source.width_bits() > MAX_MOVE_BITS {
        return Err(Unsupported::Action("moves of more than 128 bits"));
    }
    let mut slices = destination.slices.iter();
    if slices.any(|slice| slice.field == PKT_MARK) {
        return Err(Unsupported::Action("writes to pkt_mark"));
    }
    Ok(destination.slices.len())
}

fn check_output(output: &Output) -> Result<usize, Unsupported> {
    match output {
        Output::Port(_) | Output::InPort | Output::Local | Output::Field(_) => Ok(1),
        Output::Controller { pause: true, .. } => Err(Unsupported::Action("pauses")),
        Output::Controller { meter: Some(_), .. } => Err(Unsupported::Action("meters")),
        Output::Controller { .. } | Output::Table => Ok(1),
        Output::All => Err(Unsupported::Action("output to all ports")),
        Output::Flood => Err(Unsupported::Action("flood")),
        Output::Normal => Err(Unsupported::Action("normal")),
        Output::Enqueue { .. } => Err(Unsupported::Action("enqueue")),
        Output::Truncated { .. } => Err(Unsupported::Action("outputs of a part of the packet")),
    }
}

#[cfg(test)]
mod tests {
    use thalweg_pipeline::text::parse_flow;

    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        let refused = |actions: &str| {
            let flow = parse_flow(&format!("actions={actions}")).expect("a rule");
            check(&flow.actions)
                .expect_err("is not modelled")
                .to_string()
        };
        assert!(refused("output:1,group:3").contains("groups"));
        assert!(refused("normal").contains("normal"));
        assert!(refused("clone(output:1)").contains("clone"));
        assert!(refused("push:NXM_NX_REG0[]").contains("stack"));
        assert!(refused("write_actions(output:1)").contains("action sets"));
        assert!(refused("ct_clear").contains("connections"));
        assert!(refused("resubmit(,1,ct)").contains("connections"));
        assert!(refused("learn(table=1)").contains("learned"));
        assert!(refused("conjunction(1,1/2)").contains("conjunctive"));
        assert!(refused("meter:1").contains("meters"));
        assert!(refused("controller(pause)").contains("pauses"));
        assert!(refused(&vec!["output:1"; 65].join(",")).contains("65 writes"));
        assert!(refused(&vec!["note:00"; 2_000].join(",")).contains("2000 units"));
    }

    #[test]
    fn a_number_stands_for_one_list() {
        let (programs, mut numbers) = (Programs::new(), Numbers::default());
        let list = |text: &str| parse_flow(text).expect("a rule").actions;
        let one = list("actions=output:1");
        let two = list("actions=output:2");
        let number = programs.number(&mut numbers, &one).expect("modelled");
        assert_ne!(number, programs.number(&mut numbers, &two).unwrap());
        assert_eq!(number, programs.number(&mut numbers, &one).unwrap());
        assert_eq!(programs.get(number), one);
        assert!(programs.get(0).is_empty());
    }
}
