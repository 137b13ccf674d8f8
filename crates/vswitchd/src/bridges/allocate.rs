//! Numbers: of bridges in the pipeline, of ports in bridges and in the datapath.

use std::collections::{BTreeMap, BTreeSet};

use thalweg_pipeline::BridgeId;

use super::{Bridges, LOCAL, datapath_of};

/// Numbers at and above this one are left to those who ask for them.
const GIVEN_BELOW: u16 = 0x8000;
/// The first number in the datapath of a bridge's own port, in datapaths of dummies.
const BRIDGES_FROM: u32 = 100;

impl Bridges {
    /// The lowest number that no bridge has.
    pub(super) fn free_bridge(&self) -> Option<BridgeId> {
        let taken: BTreeSet<u16> = self.by_name.values().map(|bridge| bridge.id.0).collect();
        (0..u16::MAX).find(|id| !taken.contains(id)).map(BridgeId)
    }
}

/// Numbers of a bridge's ports.
#[derive(Debug, Default)]
pub(super) struct PortNumbers {
    taken: BTreeSet<u16>,
    /// The last number that was given to a port without one.
    last: u16,
}

impl PortNumbers {
    /// A number for a port: the one asked for if it is free, else the next after the last one
    /// given, so that one is not soon used again (`alloc_ofp_port` in Open vSwitch).
    pub(super) fn take(&mut self, asked: Option<u16>) -> Option<u16> {
        if let Some(asked) = asked.filter(|asked| self.taken.insert(*asked)) {
            return Some(asked);
        }
        if asked == Some(LOCAL) {
            return None;
        }
        let next = (self.last + 1..GIVEN_BELOW).chain(1..=self.last);
        let number = { next }.find(|number| !self.taken.contains(number))?;
        self.last = number;
        self.taken.insert(number);
        Some(number)
    }

    /// Gives a number back.
    pub(super) fn give_back(&mut self, number: u16) {
        self.taken.remove(&number);
    }
}

/// Numbers of ports in datapaths; all bridges of a type share one.
#[derive(Debug, Default)]
pub(super) struct DatapathNumbers {
    taken: BTreeMap<String, TakenNumbers>,
    /// By datapath and number: the name that shares it, and how many do.
    shared: BTreeMap<(String, u32), (String, usize)>,
}

/// The numbers of one datapath.
#[derive(Debug, Default)]
struct TakenNumbers {
    taken: BTreeSet<u32>,
    /// All numbers up to this one are taken.
    full_to: u32,
}

impl TakenNumbers {
    /// Takes the lowest free number.
    fn take_lowest(&mut self) -> u32 {
        let mut free = (self.full_to + 1..).filter(|number| !self.taken.contains(number));
        let number = free.next().expect("there are more numbers than ports");
        self.full_to = number;
        self.taken.insert(number);
        number
    }

    fn give_back(&mut self, number: u32) {
        self.taken.remove(&number);
        self.full_to = self.full_to.min(number.saturating_sub(1));
    }
}

impl DatapathNumbers {
    /// Takes a number for a port. In a datapath of dummies it comes from the port's name, so
    /// that tests can tell it: `p3` is 3 and `br1` is 101 (`choose_port` in Open vSwitch).
    pub(super) fn take(&mut self, datapath_type: &str, has_dummies: bool, name: &str) -> u32 {
        let (kind, _) = datapath_of(datapath_type);
        let taken = self.taken.entry(kind.to_owned()).or_default();
        let from_name = || {
            let start = if name.starts_with("br") {
                BRIDGES_FROM
            } else {
                0
            };
            let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
            let end = digits.find(|c: char| !c.is_ascii_digit());
            let digits = &digits[..end.unwrap_or(digits.len())];
            digits
                .parse::<u16>()
                .ok()
                .map(|number| start + u32::from(number))
        };
        let named = if has_dummies { from_name() } else { None };
        let named = named.filter(|number| *number > 0 && taken.taken.insert(*number));
        named.unwrap_or_else(|| taken.take_lowest())
    }

    /// Takes this number, if it is free.
    pub(super) fn take_this(&mut self, datapath_type: &str, number: u32) -> bool {
        let (kind, _) = datapath_of(datapath_type);
        let of_kind = self.taken.entry(kind.to_owned()).or_default();
        of_kind.taken.insert(number)
    }

    /// Takes a number for all ports with a name: the same for each.
    pub(super) fn take_shared(
        &mut self,
        datapath_type: &str,
        has_dummies: bool,
        name: &str,
    ) -> u32 {
        let (kind, _) = datapath_of(datapath_type);
        let mut shared = self.shared.iter_mut();
        let found = shared.find(|((of, _), (known, _))| of == kind && known == name);
        if let Some(((_, number), (_, count))) = found {
            *count += 1;
            return *number;
        }
        let number = self.take(datapath_type, has_dummies, name);
        self.shared
            .insert((kind.to_owned(), number), (name.to_owned(), 1));
        number
    }

    /// Gives a number back.
    pub(super) fn give_back(&mut self, datapath_type: &str, number: u32) {
        let (kind, _) = datapath_of(datapath_type);
        let key = (kind.to_owned(), number);
        if let Some((_, count)) = self.shared.get_mut(&key) {
            *count -= 1;
            if *count > 0 {
                return;
            }
            self.shared.remove(&key);
        }
        if let Some(taken) = self.taken.get_mut(kind) {
            taken.give_back(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_ports_are_not_soon_used_again() {
        let mut numbers = PortNumbers::default();
        assert_eq!(numbers.take(Some(7)), Some(7));
        assert_eq!(numbers.take(Some(7)), Some(1), "7 is taken");
        assert_eq!(numbers.take(None), Some(2));
        numbers.give_back(1);
        assert_eq!(numbers.take(None), Some(3));
        assert_eq!(numbers.take(Some(LOCAL)), Some(LOCAL));
        assert_eq!(numbers.take(Some(LOCAL)), None);
        let rest = std::iter::from_fn(|| numbers.take(None)).collect::<Vec<_>>();
        assert_eq!(rest.first(), Some(&4));
        assert_eq!(
            rest.last(),
            Some(&1),
            "those that were given back come last"
        );
        assert_eq!(rest.len(), usize::from(GIVEN_BELOW) - 4);
    }

    #[test]
    fn numbers_in_a_datapath_of_dummies_come_from_names() {
        let mut numbers = DatapathNumbers::default();
        let mut take = |name| numbers.take("dummy", true, name);
        assert_eq!(take("br0"), 100);
        assert_eq!(take("p1"), 1);
        assert_eq!(take("p01x7"), 2, "1 is taken");
        assert_eq!(take("patch"), 3);
        assert_eq!(take("br1-p2"), 101);
        assert_eq!(take("p0"), 4);
        assert!(numbers.take_this("dummy", 9) && !numbers.take_this("dummy", 9));
        numbers.give_back("dummy", 1);
        assert_eq!(numbers.take("dummy", true, "p1"), 1);
        assert_eq!(numbers.take("", false, "eth7"), 1);
        assert_eq!(
            numbers.take("system", false, "eth9"),
            2,
            "both are one datapath"
        );
        assert_eq!(numbers.take_shared("dummy", true, "vxlan_sys_4789"), 4_789);
        assert_eq!(numbers.take_shared("dummy", true, "gre_sys"), 5);
        assert_eq!(numbers.take_shared("dummy", true, "gre_sys"), 5);
        assert_eq!(numbers.take_shared("", false, "gre_sys"), 3);
        numbers.give_back("dummy", 5);
        assert_eq!(numbers.take("dummy", true, "p"), 6, "one shares it still");
        numbers.give_back("dummy", 5);
        assert_eq!(numbers.take("dummy", true, "p"), 5);
    }
}
