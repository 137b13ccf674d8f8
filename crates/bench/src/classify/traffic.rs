//! Draws keys to look up: flows that the rules match, and the order of their packets.
//!
//! A flow is drawn in the region of an evenly drawn rule, and the bits that the rule leaves
//! open are drawn evenly too. So flows have only the rules' own locality. For filters, a flow
//! is a packet that is parsed and extracted as a worker would. For other rules it is drawn as
//! key words, because a rule's fields do not determine a whole packet. A better rule may match
//! the flow; finding it is the classifiers' task.
//!
//! The order is uniform (each lookup any flow), Zipf's, or bursts as in a trace.

use clap::ValueEnum;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_packet::{Headers, Receipt};
use thalweg_workload::{Header, Sequence, SequenceKind};

use super::set::RuleSet;

/// Orders of lookups.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Order {
    /// Each lookup may be of any flow: no locality
    Uniform,
    /// Some flows are much more popular than others (exponent 1.1)
    Zipf,
    /// Flows start, send in bursts, pause and end, as in traces
    Trace,
}

impl Order {
    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Order::Uniform => "uniform",
            Order::Zipf => "zipf",
            Order::Trace => "trace",
        }
    }

    pub(crate) fn kind(self) -> SequenceKind {
        match self {
            Order::Uniform => SequenceKind::Uniform,
            Order::Zipf => SequenceKind::Zipf { exponent: 1.1 },
            Order::Trace => SequenceKind::TRACE,
        }
    }
}

/// Flows that a set's rules match.
pub(super) struct Flows {
    words: usize,
    keys: Vec<u64>,
    /// The flows as headers, if the set was made of filters.
    headers: Vec<Header>,
}

impl Flows {
    /// Draws `count` flows.
    pub(super) fn draw(set: &RuleSet, count: usize, seed: u64) -> Flows {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let words = set.words();
        let mut flows = Flows {
            words,
            keys: vec![0; words * count],
            headers: Vec::new(),
        };
        if set.filters.is_empty() {
            let fields = field_bits(set);
            for key in flows.keys.chunks_exact_mut(words) {
                let pattern = set.pattern(random.random_range(0..set.len()));
                let bits = pattern.value.iter().zip(pattern.mask).zip(&fields);
                for (word, ((value, mask), field)) in key.iter_mut().zip(bits) {
                    *word = value | random.random::<u64>() & field & !mask;
                }
            }
            return flows;
        }
        for key in flows.keys.chunks_exact_mut(words) {
            let filter = &set.filters[random.random_range(0..set.filters.len())];
            let header = filter.header(&mut random);
            let packet = header.packet();
            let headers = Headers::parse(&packet).expect("the packet is whole");
            set.layout
                .extract(&packet, &headers, &Receipt::from_port(1), key);
            flows.headers.push(header);
        }
        flows
    }

    /// Number of flows.
    pub(super) fn len(&self) -> usize {
        self.keys.len() / self.words
    }

    /// The key of a flow.
    pub(super) fn key(&self, flow: usize) -> &[u64] {
        &self.keys[flow * self.words..(flow + 1) * self.words]
    }

    /// A sequence of `lookups` lookups of these flows.
    pub(super) fn trace(&self, order: Order, lookups: usize, seed: u64) -> Trace {
        let flows: Vec<u32> = self.sequence(order, seed).take(lookups).collect();
        let keys = flows.iter().flat_map(|flow| self.key(*flow as usize));
        Trace {
            words: self.words,
            keys: keys.copied().collect(),
        }
    }

    /// The same lookups as lines of headers; empty if the set was not made of filters.
    pub(super) fn header_lines(&self, order: Order, lookups: usize, seed: u64) -> String {
        if self.headers.is_empty() {
            return String::new();
        }
        let flows = self.sequence(order, seed).take(lookups);
        let lines = flows.map(|flow| format!("{}\n", self.headers[flow as usize]));
        lines.collect()
    }

    fn sequence(&self, order: Order, seed: u64) -> impl Iterator<Item = u32> + use<> {
        let sequence = Sequence::new(order.kind(), self.len(), seed);
        let sequence = sequence.expect("there are flows, and the shapes are good");
        sequence.map(|flow| flow as u32)
    }
}

/// Keys in the order of their lookups.
pub(super) struct Trace {
    words: usize,
    keys: Vec<u64>,
}

impl Trace {
    /// Creates a trace of these keys, in sequence.
    pub(super) fn new(words: usize, keys: Vec<u64>) -> Trace {
        Trace { words, keys }
    }

    /// Number of lookups.
    pub(super) fn len(&self) -> usize {
        self.keys.len() / self.words
    }

    /// The keys of `count` lookups, in sequence.
    pub(super) fn keys(&self, from: usize, count: usize) -> &[u64] {
        &self.keys[from * self.words..(from + count) * self.words]
    }
}

/// The bits of a key that belong to a field.
fn field_bits(set: &RuleSet) -> Vec<u64> {
    let mut bits = vec![0; set.words()];
    for &field in set.layout.used() {
        let width = set.layout.descriptor(field).width_bits;
        let all = u128::MAX >> (128 - u32::from(width.min(128)));
        set.layout.set(&mut bits, field, all);
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: &str) -> RuleSet {
        RuleSet::read(name, None, 1).expect("a set")
    }

    #[test]
    fn every_flow_is_matched_by_some_rule() {
        let set = set("ipc1-300");
        let flows = Flows::draw(&set, 500, 1);
        for flow in 0..flows.len() {
            let key = flows.key(flow);
            let is_matched = (0..set.len()).any(|rule| set.pattern(rule).matches(key));
            assert!(is_matched, "{key:x?}");
        }
    }

    #[test]
    fn lookups_and_lines_are_of_the_same_flows() {
        let set = set("acl1-100");
        let flows = Flows::draw(&set, 20, 1);
        for order in [Order::Uniform, Order::Zipf, Order::Trace] {
            let trace = flows.trace(order, 64, 3);
            let lines = flows.header_lines(order, 64, 3);
            for (place, line) in lines.lines().enumerate() {
                let mut all = 0..flows.len();
                let flow = all.find(|flow| flows.headers[*flow].to_string() == line);
                assert_eq!(trace.keys(place, 1), flows.key(flow.expect("a flow")));
            }
            assert_eq!((trace.len(), lines.lines().count()), (64, 64));
        }
    }
}
