//! Commands for multicast groups, their nodes, and mirroring sessions.
//!
//! Nodes exist only here. The switch knows groups, each with all copies that its nodes make, in
//! the order in which the nodes joined. A node is in at most one group, as in simple_switch.

use std::collections::{BTreeMap, BTreeSet};

use crate::state::{Mirror, Mode, Replica, Update};

use super::handles::Handles;
use super::{Asked, Note, Reader, Said, Word, Wrong, number, said, word};

/// The groups and their nodes.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    pub(super) nodes: Handles<Node>,
    /// The nodes of each group.
    pub(super) groups: BTreeMap<u16, Vec<u32>>,
}

/// A set of ports that get one copy each.
#[derive(Clone, Debug)]
pub(super) struct Node {
    instance: u16,
    /// In ascending order, without duplicates.
    ports: Vec<u32>,
    pub(super) group: Option<u16>,
}

impl Known {
    fn node(&self, handle: &Word<'_>) -> Result<(u32, &Node), Wrong> {
        let node = number(handle)?;
        let found = self.nodes.get(node);
        let missing = || handle.wrong(format!("there is no node {node}"));
        Ok((node, found.ok_or_else(missing)?))
    }

    fn group(&self, word: &Word<'_>) -> Result<(u16, &Vec<u32>), Wrong> {
        let group = number(word)?;
        let nodes = self.groups.get(&group);
        let missing = || word.wrong(format!("there is no group {group}"));
        Ok((group, nodes.ok_or_else(missing)?))
    }

    /// The copies that nodes make, with one node replaced if `other` is given.
    fn copies(&self, nodes: &[u32], other: Option<(u32, &Node)>) -> Vec<Replica> {
        let node = |handle: &u32| match other {
            Some((changed, node)) if changed == *handle => node.clone(),
            _ => self
                .nodes
                .get(*handle)
                .expect("nodes of groups are there")
                .clone(),
        };
        let copies = nodes.iter().flat_map(|handle| {
            let Node {
                instance, ports, ..
            } = node(handle);
            ports
                .into_iter()
                .map(move |port| Replica { port, instance })
        });
        copies.collect()
    }

    /// The update for a group that now has these nodes.
    fn regroup(&self, group: u16, nodes: &[u32]) -> Update {
        Update::Multicast(Mode::Set, group, self.copies(nodes, None))
    }
}

/// Reads a node's ports, in ascending order.
fn ports(words: &[Word<'_>]) -> Result<Vec<u32>, Wrong> {
    if let Some(lags) = words.iter().find(|word| &***word == "|") {
        return Err(lags.wrong("a node has ports only, and no LAGs: write no |"));
    }
    let mut ports = BTreeSet::new();
    for word in words {
        let port: u32 = number(word)?;
        if !ports.insert(port) {
            return Err(word.wrong(format!("the node has port {port} twice")));
        }
    }
    Ok(ports.into_iter().collect())
}

/// Commands for groups and nodes.
impl Reader<'_> {
    pub(super) fn create_multicast_group(&self, words: &[Word<'_>]) -> Said {
        let group = number(word(words, 0)?)?;
        if self.multicast.groups.contains_key(&group) {
            return Err(format!("there is a group {group} already").into());
        }
        let update = Update::Multicast(Mode::Set, group, Vec::new());
        Ok(said(update, Note::Nodes(group, Vec::new())))
    }

    pub(super) fn destroy_multicast_group(&self, words: &[Word<'_>]) -> Said {
        let (group, _) = self.multicast.group(word(words, 0)?)?;
        let update = Update::Multicast(Mode::Delete, group, Vec::new());
        Ok(said(update, Note::NoGroup(group)))
    }

    pub(super) fn create_node(&self, words: &[Word<'_>]) -> Said {
        let node = Node {
            instance: number(word(words, 0)?)?,
            ports: ports(&words[1..])?,
            group: None,
        };
        Ok(Asked {
            updates: Vec::new(),
            note: Some(Note::Node(node)),
        })
    }

    pub(super) fn update_node(&self, words: &[Word<'_>]) -> Said {
        let known = &self.multicast;
        let (handle, node) = known.node(word(words, 0)?)?;
        let after = Node {
            ports: ports(&words[1..])?,
            ..node.clone()
        };
        let update = node.group.map(|group| {
            let copies = known.copies(&known.groups[&group], Some((handle, &after)));
            Update::Multicast(Mode::Set, group, copies)
        });
        Ok(Asked {
            updates: update.into_iter().collect(),
            note: Some(Note::NodeChanged(handle, after)),
        })
    }

    pub(super) fn associate_node(&self, words: &[Word<'_>]) -> Said {
        let known = &self.multicast;
        let (handle, node) = known.node(word(words, 1)?)?;
        let (group, nodes) = known.group(word(words, 0)?)?;
        if let Some(other) = node.group {
            return Err(format!("node {handle} is in group {other} already").into());
        }
        let nodes = [nodes.as_slice(), &[handle]].concat();
        Ok(said(
            known.regroup(group, &nodes),
            Note::Nodes(group, nodes),
        ))
    }

    pub(super) fn dissociate_node(&self, words: &[Word<'_>]) -> Said {
        let (group, _) = self.multicast.group(word(words, 0)?)?;
        let (handle, node) = self.multicast.node(word(words, 1)?)?;
        if node.group != Some(group) {
            return Err(format!("node {handle} is not in group {group}").into());
        }
        Ok(self.leave(group, handle))
    }

    /// Removes a node from its group.
    fn leave(&self, group: u16, node: u32) -> Asked {
        let mut nodes = self.multicast.groups[&group].clone();
        nodes.retain(|one| *one != node);
        let update = self.multicast.regroup(group, &nodes);
        said(update, Note::Nodes(group, nodes))
    }

    pub(super) fn destroy_node(&self, words: &[Word<'_>]) -> Said {
        let (handle, node) = self.multicast.node(word(words, 0)?)?;
        let updates = match node.group {
            Some(group) => self.leave(group, handle).updates,
            None => Vec::new(),
        };
        Ok(Asked {
            updates,
            note: Some(Note::NodeGone(handle)),
        })
    }
}

/// Tracks the nodes of groups.
impl Known {
    pub(super) fn set_nodes(&mut self, group: u16, nodes: Vec<u32>) {
        let before = self.groups.insert(group, nodes.clone()).unwrap_or_default();
        for (handles, of) in [(before, None), (nodes, Some(group))] {
            for handle in handles {
                if let Some(node) = self.nodes.get_mut(handle) {
                    node.group = of;
                }
            }
        }
    }

    pub(super) fn remove_group(&mut self, group: u16) {
        self.set_nodes(group, Vec::new());
        self.groups.remove(&group);
    }

    pub(super) fn remove_node(&mut self, handle: u32) {
        if let Some(group) = self.nodes.get(handle).and_then(|node| node.group)
            && let Some(nodes) = self.groups.get_mut(&group)
        {
            nodes.retain(|one| *one != handle);
        }
        self.nodes.remove(handle);
    }
}

/// Commands for sessions.
impl Reader<'_> {
    pub(super) fn add_mirror(&self, words: &[Word<'_>]) -> Said {
        let port = number(word(words, 1)?)?;
        let replica = Replica { port, instance: 0 };
        let mirror = Mirror {
            replicas: vec![replica],
            ..Mirror::default()
        };
        Ok(Update::Mirror(Mode::Set, number(word(words, 0)?)?, mirror).into())
    }

    pub(super) fn add_mirror_group(&self, words: &[Word<'_>]) -> Said {
        let mirror = Mirror {
            group: Some(number(word(words, 1)?)?),
            ..Mirror::default()
        };
        Ok(Update::Mirror(Mode::Set, number(word(words, 0)?)?, mirror).into())
    }

    pub(super) fn delete_mirror(&self, words: &[Word<'_>]) -> Said {
        let session = number(word(words, 0)?)?;
        Ok(Update::Mirror(Mode::Delete, session, Mirror::default()).into())
    }
}
