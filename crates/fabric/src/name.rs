//! The name of a node: its kind, and its number among nodes of that kind, from 0.
//!
//! ```text
//!   core 0    spine 5    ToR 3    server 17    gateway 2        and `tor-3`, where a space is a nuisance
//! ```

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The name of a node, which need not exist in a fabric.
///
/// ```
/// use thalweg_fabric::{FatTree, NodeName, Topology};
///
/// let topology = Topology::new(&FatTree::ft8_10k(10)).unwrap();
/// let name: NodeName = "tor-3".parse().unwrap();
/// let node = topology.node_named(name).unwrap();
/// assert_eq!((name.to_string(), topology.name(node)), ("ToR 3".to_owned(), name));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeName {
    /// Its kind.
    pub class: NodeClass,
    /// Its number, from 0.
    pub number: u32,
}

/// A kind of node, regardless of its role.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum NodeClass {
    /// A switch above the spines.
    Core,
    /// A switch above the ToRs of a pod.
    Spine,
    /// A switch with servers.
    Tor,
    /// A server.
    Server,
    /// A gateway.
    Gateway,
}

impl NodeClass {
    /// All kinds.
    pub const ALL: [NodeClass; 5] = [
        NodeClass::Core,
        NodeClass::Spine,
        NodeClass::Tor,
        NodeClass::Server,
        NodeClass::Gateway,
    ];

    /// The name of the kind.
    pub fn name(self) -> &'static str {
        match self {
            NodeClass::Core => "core",
            NodeClass::Spine => "spine",
            NodeClass::Tor => "ToR",
            NodeClass::Server => "server",
            NodeClass::Gateway => "gateway",
        }
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.class.name(), self.number)
    }
}

/// A text that is not a node name.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "{0:?} is no node; give core, spine, tor, server or gateway and a number from 0, such as \"tor 3\""
)]
pub struct NodeNameError(String);

impl FromStr for NodeName {
    type Err = NodeNameError;

    fn from_str(text: &str) -> Result<NodeName, NodeNameError> {
        let error = || NodeNameError(text.to_owned());
        let (class, number) = text.split_once([' ', '-']).ok_or_else(error)?;
        let mut all = NodeClass::ALL.into_iter();
        let class = all.find(|known| known.name().eq_ignore_ascii_case(class));
        let is_digits = number.bytes().all(|byte| byte.is_ascii_digit());
        Ok(NodeName {
            class: class.filter(|_| is_digits).ok_or_else(error)?,
            number: number.parse().map_err(|_| error())?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FatTree, Topology};

    #[test]
    fn every_node_has_one_name_and_every_name_one_node() {
        for shape in [FatTree::ft8_10k(3), FatTree::leaf_spine(3, 2, 4, 2)] {
            let topology = Topology::new(&shape).unwrap();
            for node in (0..topology.node_count() as u32).map(crate::NodeId) {
                let name = topology.name(node);
                assert_eq!(topology.node_named(name), Some(node), "{name}");
                assert_eq!(name.to_string().parse(), Ok(name));
                assert_eq!(
                    name.to_string().to_lowercase().replace(' ', "-").parse(),
                    Ok(name)
                );
            }
            for class in NodeClass::ALL {
                let nodes = (0..).map(|number| topology.node_named(NodeName { class, number }));
                let count = nodes.take_while(Option::is_some).count() as u32;
                for number in [count, count + 1, u32::MAX] {
                    assert_eq!(topology.node_named(NodeName { class, number }), None);
                }
            }
        }
    }

    #[test]
    fn what_is_no_name_is_told_so() {
        for text in [
            "",
            "tor",
            "tor3",
            "tor +3",
            "tor -3",
            "rack 3",
            "tor 4294967296",
            "tor 3 ",
        ] {
            let error = text.parse::<NodeName>().unwrap_err().to_string();
            assert!(error.contains("such as \"tor 3\""), "{error}");
        }
    }
}
