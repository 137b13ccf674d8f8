//! Describes a filter set as data: the parameters of the generator, counted or written by
//! hand.
//!
//! A [`Shape`] has the properties that make a set of filters hard or easy to classify: the
//! lengths of prefixes (source and destination together), the sharing of prefixes, the
//! combinations of protocols and port classes, and the ports. It is counted from a set
//! ([`Shape::of`]), or written by hand, as lines of a key and its values:
//!
//! ```text
//! family ipv4                              or ipv6
//! sharing 6291 431 113                     a set of so many filters has so many distinct sources
//!                                          and destinations in a thousand filters
//! lengths any exact 24: 0=1108 32=2163     with these classes of source and destination ports, of
//!                                          sources of 24 bits, so many destinations of 0, of 32
//! service 6 any exact 36364                protocol (or any), classes of source and destination
//!                                          ports, how often
//! destination_ports 80=3042 443=47         ports of the class `exact`, how often
//! destination_ranges 20-23=496             ranges of the class `range`, how often
//! tcp_flags 0x0000/0x0200 8582             flags and mask of TCP filters, how often
//! ```
//!
//! The classes of ports are ClassBench's (Taylor and Turner, INFOCOM 2005, section III): `any`,
//! `high` (1024 and above), `low` (below 1024), `range` (another range) and `exact`.
//!
//! 1. Filters can be drawn from a checked shape: it has lengths within its family, services,
//!    and a port or range for every class that a service names.

use super::{PortRange, Profile};

mod count;
mod ipv6;
mod text;

pub use text::SHAPE_KEYS;

/// A class of port ranges.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PortClass {
    /// Every port.
    Any,
    /// 1024 and above.
    High,
    /// Below 1024.
    Low,
    /// Another range.
    Range,
    /// One port.
    Exact,
}

/// The classes with their names.
const CLASSES: [(PortClass, &str); 5] = [
    (PortClass::Any, "any"),
    (PortClass::High, "high"),
    (PortClass::Low, "low"),
    (PortClass::Range, "range"),
    (PortClass::Exact, "exact"),
];

impl PortClass {
    /// Its name.
    pub fn name(self) -> &'static str {
        let known = CLASSES.iter().find(|(class, _)| *class == self);
        known.expect("every class has a name").1
    }
}

/// A protocol with its port classes, and their weight together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServiceShare {
    /// The protocol; `None` for any.
    pub protocol: Option<u8>,
    /// The class of the source ports.
    pub source: PortClass,
    /// The class of the destination ports.
    pub destination: PortClass,
    /// The weight.
    pub weight: u32,
}

/// Lengths that occur together with classes of ports, and their weight.
///
/// ClassBench's seeds also list lengths by port classes: there are fewer different masks than
/// if ports and prefixes were independent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LengthShare {
    /// The classes of source and destination ports.
    pub ports: (PortClass, PortClass),
    /// The length of the source.
    pub source: u8,
    /// The length of the destination.
    pub destination: u8,
    /// The weight.
    pub weight: u32,
}

/// The sharing of prefixes in a set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sharing {
    /// The number of filters in the set.
    pub filters: u32,
    /// Of a thousand filters, how many have a source that no earlier one has.
    pub sources: u32,
    /// Of a thousand filters, how many have a destination that no earlier one has.
    pub destinations: u32,
}

/// The ports of one side, by class.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PortShares {
    /// Ports of the class `exact`, with their weights.
    pub exact: Vec<(u16, u32)>,
    /// Ranges of the class `range`, with their weights.
    pub ranges: Vec<(PortRange, u32)>,
}

/// The parameters of a filter set.
///
/// ```
/// use thalweg_workload::{Profile, Shape};
///
/// let filters = Shape::built_in(Profile::Ipc1).filters(1_000, 7);
/// let counted = Shape::of(&filters); // much like what they were drawn from
/// assert_eq!(counted.sharing[0].filters, 1_000);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Whether addresses are IPv6.
    pub is_ipv6: bool,
    /// In ascending order of filters.
    pub sharing: Vec<Sharing>,
    /// Lengths of source and destination, by classes of ports.
    pub lengths: Vec<LengthShare>,
    /// Protocols and port classes.
    pub services: Vec<ServiceShare>,
    /// Source ports.
    pub source_ports: PortShares,
    /// Destination ports.
    pub destination_ports: PortShares,
    /// Flags, mask and weight of TCP filters; may be empty.
    pub tcp_flags: Vec<(u16, u16, u32)>,
}

/// Why a shape cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct ShapeError(String);

fn error<T>(what: impl Into<String>) -> Result<T, ShapeError> {
    Err(ShapeError(what.into()))
}

impl Default for Shape {
    /// An empty IPv4 shape.
    fn default() -> Shape {
        Shape {
            is_ipv6: false,
            sharing: Vec::new(),
            lengths: Vec::new(),
            services: Vec::new(),
            source_ports: PortShares::default(),
            destination_ports: PortShares::default(),
            tcp_flags: Vec::new(),
        }
    }
}

impl Shape {
    /// The shape of a built-in profile.
    pub fn built_in(profile: Profile) -> Shape {
        let text = match profile {
            Profile::Acl1 | Profile::Acl6 => include_str!("profiles/acl1.profile"),
            Profile::Fw1 | Profile::Fw6 => include_str!("profiles/fw1.profile"),
            Profile::Ipc1 | Profile::Ipc6 => include_str!("profiles/ipc1.profile"),
        };
        let mut shape = Shape::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (key, value) = line.split_once(' ').expect("a key and what it says");
            shape.add(key, value).expect("built-in shapes are good");
        }
        match profile {
            Profile::Acl1 | Profile::Fw1 | Profile::Ipc1 => shape,
            Profile::Acl6 | Profile::Fw6 | Profile::Ipc6 => shape.to_ipv6(),
        }
    }

    /// Checks that filters can be drawn from the shape.
    ///
    /// # Errors
    /// If something is missing, or outside its range.
    pub fn check(&self) -> Result<(), ShapeError> {
        let width = self.width();
        if let Some(one) = (self.lengths.iter()).find(|one| one.source.max(one.destination) > width)
        {
            return error(format!(
                "lengths {} and {}: an address has {width} bits",
                one.source, one.destination
            ));
        }
        if self.services.iter().all(|service| service.weight == 0) {
            return error("no service has a weight; add `service`");
        }
        if let Some(sharing) = (self.sharing.iter())
            .find(|one| one.filters == 0 || one.sources.max(one.destinations) > 1_000)
        {
            return error(format!(
                "sharing of {} filters: give a number of filters, then shares up to 1000",
                sharing.filters
            ));
        }
        let is_rising = self.sharing.is_sorted_by(|a, b| a.filters < b.filters);
        if self.sharing.is_empty() || !is_rising {
            return error("give `sharing` of one size at least, and of rising sizes");
        }
        if self
            .tcp_flags
            .iter()
            .map(|(_, _, weight)| weight)
            .all(|weight| *weight == 0)
            && !self.tcp_flags.is_empty()
        {
            return error("no flags have a weight; add one, or leave `tcp_flags` out");
        }
        for service in self.services.iter().filter(|service| service.weight > 0) {
            check_ports(service.source, &self.source_ports, "source")?;
            let destination = &self.destination_ports;
            check_ports(service.destination, destination, "destination")?;
            let ports = (service.source, service.destination);
            let of_ports = |one: &LengthShare| one.ports == ports && one.weight > 0;
            if !self.lengths.iter().any(of_ports) {
                return error(format!(
                    "a service has ports of the classes {} and {}, but there are no `lengths`",
                    ports.0.name(),
                    ports.1.name()
                ));
            }
        }
        Ok(())
    }

    /// The bits of an address.
    pub(super) fn width(&self) -> u8 {
        if self.is_ipv6 { 128 } else { 32 }
    }
}

fn check_ports(class: PortClass, ports: &PortShares, side: &str) -> Result<(), ShapeError> {
    let has_weight = match class {
        PortClass::Exact => ports.exact.iter().any(|(_, weight)| *weight > 0),
        PortClass::Range => ports.ranges.iter().any(|(_, weight)| *weight > 0),
        _ => true,
    };
    if has_weight {
        return Ok(());
    }
    let list = if class == PortClass::Exact {
        "ports"
    } else {
        "ranges"
    };
    error(format!(
        "a service has {side} ports of the class {}, but there are no `{side}_{list}`",
        class.name()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_drawn_from_is_refused() {
        let good = [
            ("sharing", "10 500 500"),
            ("lengths", "any exact 32: 32=1"),
            ("service", "6 any exact 1"),
            ("destination_ports", "80=1"),
        ];
        let refusal = |change: &dyn Fn(&mut Shape)| {
            let mut shape = Shape::default();
            for (key, line) in good {
                shape.add(key, line).unwrap();
            }
            assert_eq!(shape.check(), Ok(()));
            change(&mut shape);
            shape.check().unwrap_err().to_string()
        };
        let told = refusal(&|shape| shape.lengths[0].destination = 33);
        assert!(told.contains("an address has 32 bits"), "{told}");
        let told = refusal(&|shape| shape.lengths[0].weight = 0);
        assert!(told.contains("there are no `lengths`"), "{told}");
        let told = refusal(&|shape| shape.destination_ports.exact.clear());
        assert!(told.contains("there are no `destination_ports`"), "{told}");
        let told = refusal(&|shape| shape.sharing.clear());
        assert!(told.contains("give `sharing`"), "{told}");
        let told = refusal(&|shape| shape.services.clear());
        assert!(told.contains("add `service`"), "{told}");
        let told = refusal(&|shape| shape.sharing[0].sources = 1_001);
        assert!(told.contains("shares up to 1000"), "{told}");
        let told = refusal(&|shape| shape.tcp_flags.push((0, 0, 0)));
        assert!(told.contains("leave `tcp_flags` out"), "{told}");
    }
}
