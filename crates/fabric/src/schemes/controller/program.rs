//! Decides which switches get which mappings, by an integer program.
//!
//! ```text
//!   K(s, t) in {0, 1}        switch s has the mapping of target t
//!   y(d, s) in [0, 1]        demand d is served at switch s of its way
//!
//!   maximize   sum of weight(d) * saving(d, s) * y(d, s)
//!   so that    y(d, s) <= K(s, target(d))              it is there
//!              sum over s of y(d, s) <= 1              a packet is resolved once
//!              sum over t of K(s, t) <= entries        memory
//! ```
//!
//! Savings never grow along a route, so the best y is the first switch that has the mapping,
//! which is where the packet is resolved. If all savings of a demand are equal, one y with `y
//! <= sum of K` is enough.
//!
//! A switch with room for all passing mappings gets them all before anything is solved. The
//! rest goes to `microlp`, with a greedy choice as the first solution; if no better one is
//! found within the steps, the greedy choice is the answer. Programs with more than
//! [`MAX_VARIABLES`] variables are not solved at all. (HiGHS would be faster, but its bindings
//! need CMake and libclang to build.)
//!
//! Reference: Zeno, Chen, Silberstein, SIGCOMM 2024, appendix A.1. Departure: the text limits
//! the sum over all switches by one switch's memory, which cannot be meant; here each has its
//! own limit.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use microlp::{ComparisonOp, OptimizationDirection, Problem, SolveOptions, Variable};
use smallvec::SmallVec;

/// The most variables of a program that is solved; larger ones would take nearly all of the
/// run time.
const MAX_VARIABLES: usize = 60_000;

/// Packets with the same route and target.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Demand {
    /// The target.
    pub(super) target: u32,
    /// The switches on the route, and the saving per packet at each.
    pub(super) options: SmallVec<[(u32, u32); 5]>,
    /// The number of packets.
    pub(super) weight: u64,
}

/// How good a plan provably is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Proof {
    /// No plan is better.
    Best,
    /// The best plan is better by at most this share.
    Within(f64),
    /// Nothing is proven.
    None,
}

/// The chosen pairs of switch and target, sorted.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Plan {
    pub(super) placed: Vec<(u32, u32)>,
    pub(super) proof: Proof,
}

/// Finds the placement that saves most, within the step limit.
pub(super) fn solve(demands: &[Demand], switches: usize, entries: u32, steps: u64) -> Plan {
    let demands = merged(demands);
    let mut candidates: BTreeMap<(u32, u32), usize> = BTreeMap::new();
    for demand in &demands {
        for &(switch, _) in &demand.options {
            candidates.insert((switch, demand.target), 0);
        }
    }
    let mut passing = vec![0_u32; switches];
    for &(switch, _) in candidates.keys() {
        passing[switch as usize] += 1;
    }
    let has_room: Vec<bool> = passing.iter().map(|count| *count <= entries).collect();
    let mut program = Program {
        demands: &demands,
        has_room: &has_room,
        entries,
    };
    let contested: Vec<(u32, u32)> = candidates
        .keys()
        .copied()
        .filter(|(switch, _)| !has_room[*switch as usize])
        .collect();
    let (chosen, proof) = program.choose(&contested, steps);
    let free = candidates.keys().copied();
    let free = free.filter(|(switch, _)| has_room[*switch as usize]);
    let mut placed: Vec<(u32, u32)> = free.chain(chosen).collect();
    placed.sort_unstable();
    Plan { placed, proof }
}

/// Merges demands with the same route and target.
fn merged(demands: &[Demand]) -> Vec<Demand> {
    let mut sums: BTreeMap<Demand, u64> = BTreeMap::new();
    for demand in demands {
        let way = Demand {
            weight: 0,
            ..demand.clone()
        };
        *sums.entry(way).or_default() += demand.weight;
    }
    let sums = sums.into_iter();
    sums.map(|(way, weight)| Demand { weight, ..way }).collect()
}

struct Program<'a> {
    demands: &'a [Demand],
    has_room: &'a [bool],
    entries: u32,
}

impl Program<'_> {
    /// Chooses the pairs to place at switches without room for all.
    fn choose(&mut self, contested: &[(u32, u32)], steps: u64) -> (Vec<(u32, u32)>, Proof) {
        if contested.is_empty() {
            return (Vec::new(), Proof::Best);
        }
        let greedy = self.greedy(contested);
        let options: usize = self.demands.iter().map(|demand| demand.options.len()).sum();
        if contested.len() + options > MAX_VARIABLES {
            return (greedy, Proof::None);
        }
        self.search(contested, &greedy, steps)
            .unwrap_or((greedy, Proof::None))
    }

    /// Places pairs one by one, each time the one that saves most given those already placed.
    ///
    /// A pair's saving only falls as others are placed. So a pair whose last known saving is
    /// still current is the best.
    fn greedy(&self, contested: &[(u32, u32)]) -> Vec<(u32, u32)> {
        let mut of_pair: BTreeMap<(u32, u32), Vec<usize>> = BTreeMap::new();
        let mut saved = vec![0_u32; self.demands.len()];
        for (index, demand) in self.demands.iter().enumerate() {
            for &(switch, saving) in &demand.options {
                if self.has_room[switch as usize] {
                    saved[index] = saved[index].max(saving);
                } else {
                    of_pair
                        .entry((switch, demand.target))
                        .or_default()
                        .push(index);
                }
            }
        }
        let gain = |pair: (u32, u32), saved: &[u32]| -> u64 {
            let indices = of_pair.get(&pair).map_or(&[][..], Vec::as_slice);
            let more = indices.iter().map(|&index| {
                let demand = &self.demands[index];
                let option = demand.options.iter().find(|option| option.0 == pair.0);
                let saving = option.map_or(0, |option| option.1);
                demand.weight * u64::from(saving.saturating_sub(saved[index]))
            });
            more.sum()
        };
        let mut heap: BinaryHeap<(u64, Reverse<(u32, u32)>)> = contested
            .iter()
            .map(|&pair| (gain(pair, &saved), Reverse(pair)))
            .collect();
        let mut used = vec![0_u32; self.has_room.len()];
        let mut placed = Vec::new();
        while let Some((known, Reverse(pair))) = heap.pop() {
            if known == 0 || used[pair.0 as usize] == self.entries {
                continue;
            }
            let now = gain(pair, &saved);
            if now < known {
                heap.push((now, Reverse(pair)));
                continue;
            }
            used[pair.0 as usize] += 1;
            placed.push(pair);
            for &index in &of_pair[&pair] {
                let options = &self.demands[index].options;
                let option = options.iter().find(|option| option.0 == pair.0);
                saved[index] = saved[index].max(option.map_or(0, |option| option.1));
            }
        }
        placed
    }

    /// Branch and bound; `None` if no solution was found.
    fn search(
        &self,
        contested: &[(u32, u32)],
        greedy: &[(u32, u32)],
        steps: u64,
    ) -> Option<(Vec<(u32, u32)>, Proof)> {
        let mut problem = Problem::new(OptimizationDirection::Maximize);
        let mut variables: BTreeMap<(u32, u32), Variable> = BTreeMap::new();
        let mut of_switch: BTreeMap<u32, Vec<(Variable, f64)>> = BTreeMap::new();
        for &(switch, target) in contested {
            let variable = problem.add_binary_var(0.0);
            variables.insert((switch, target), variable);
            of_switch.entry(switch).or_default().push((variable, 1.0));
        }
        for memory in of_switch.values() {
            problem.add_constraint(memory, ComparisonOp::Le, f64::from(self.entries));
        }
        for demand in self.demands {
            self.add_demand(&mut problem, demand, &variables);
        }
        let greedy: BTreeSet<(u32, u32)> = greedy.iter().copied().collect();
        let start = variables.iter().map(|(pair, variable)| {
            let is_placed = greedy.contains(pair);
            (*variable, if is_placed { 1.0 } else { 0.0 })
        });
        let mut options = SolveOptions::default();
        options.node_limit = Some(steps);
        options.warm_start = Some(start.collect());
        let solution = problem.solve_with(options).ok()?.into_solution().ok()?;
        let placed = variables.iter().filter_map(|(pair, variable)| {
            let is_placed = solution.var_value(*variable) > 0.5;
            is_placed.then_some(*pair)
        });
        let proof = match solution.gap() {
            Some(gap) if gap <= 1e-9 => Proof::Best,
            Some(gap) => Proof::Within(gap),
            None => Proof::None,
        };
        Some((placed.collect(), proof))
    }

    fn add_demand(
        &self,
        problem: &mut Problem,
        demand: &Demand,
        variables: &BTreeMap<(u32, u32), Variable>,
    ) {
        let worth = |saving: u32| demand.weight as f64 * f64::from(saving);
        let there = |switch: u32| variables.get(&(switch, demand.target)).copied();
        let first = demand.options.first().map_or(0, |option| option.1);
        if demand.options.iter().all(|option| option.1 == first) {
            let has_room = |option: &(u32, u32)| self.has_room[option.0 as usize];
            if demand.options.iter().any(has_room) {
                return;
            }
            let served = problem.add_var(worth(first), (0.0, 1.0));
            let places = demand.options.iter().filter_map(|option| there(option.0));
            let mut sum: Vec<(Variable, f64)> = places.map(|place| (place, -1.0)).collect();
            sum.push((served, 1.0));
            problem.add_constraint(sum, ComparisonOp::Le, 0.0);
            return;
        }
        let mut all = Vec::new();
        for &(switch, saving) in &demand.options {
            let served = problem.add_var(worth(saving), (0.0, 1.0));
            all.push((served, 1.0));
            if let Some(place) = there(switch) {
                problem.add_constraint([(served, 1.0), (place, -1.0)], ComparisonOp::Le, 0.0);
            }
        }
        problem.add_constraint(all, ComparisonOp::Le, 1.0);
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;

    /// The saving of a placement.
    fn value(demands: &[Demand], placed: &[(u32, u32)]) -> u64 {
        let saved = demands.iter().map(|demand| {
            let found = demand
                .options
                .iter()
                .find(|option| placed.contains(&(option.0, demand.target)));
            demand.weight * found.map_or(0, |option| u64::from(option.1))
        });
        saved.sum()
    }

    /// The best value by exhaustive search.
    fn best(demands: &[Demand], pairs: &[(u32, u32)], entries: u32) -> u64 {
        let mut best = 0;
        for bits in 0..1_u32 << pairs.len() {
            let chosen = pairs.iter().enumerate();
            let chosen = chosen.filter(|(index, _)| bits >> index & 1 == 1);
            let placed: Vec<(u32, u32)> = chosen.map(|(_, pair)| *pair).collect();
            let fits = |switch: u32| {
                let here = placed.iter().filter(|pair| pair.0 == switch);
                here.count() <= entries as usize
            };
            if (0..8).all(fits) {
                best = best.max(value(demands, &placed));
            }
        }
        best
    }

    fn random_demands(random: &mut Pcg64, is_relaxed: bool) -> Vec<Demand> {
        let count = random.random_range(1..9);
        let demand = |_| {
            let mut switches: Vec<u32> = (0..4).collect();
            for index in 0..4 {
                switches.swap(index, random.random_range(0..4));
            }
            let mut saving = random.random_range(5..40);
            let len = random.random_range(1..4);
            let mut options = SmallVec::new();
            for &switch in switches.iter().take(len) {
                if !is_relaxed {
                    saving -= random.random_range(0..=saving.min(3));
                }
                options.push((switch, saving));
            }
            Demand {
                target: random.random_range(0..3),
                options,
                weight: random.random_range(1..50),
            }
        };
        (0..count).map(demand).collect()
    }

    #[test]
    fn plans_are_the_best_there_are() {
        let mut random = Pcg64::seed_from_u64(1);
        for round in 0..300 {
            let demands = random_demands(&mut random, round % 2 == 0);
            let entries = random.random_range(1..4);
            let mut pairs: Vec<(u32, u32)> = demands
                .iter()
                .flat_map(|demand| {
                    demand
                        .options
                        .iter()
                        .map(|option| (option.0, demand.target))
                })
                .collect();
            pairs.sort_unstable();
            pairs.dedup();
            let plan = solve(&demands, 8, entries, 1_000);
            for switch in 0..8 {
                let here = plan.placed.iter().filter(|pair| pair.0 == switch);
                assert!(here.count() <= entries as usize, "round {round}");
            }
            let most = best(&demands, &pairs, entries);
            assert_eq!(plan.proof, Proof::Best, "round {round}");
            assert_eq!(
                value(&demands, &plan.placed),
                most,
                "round {round}: {demands:?}"
            );
        }
    }

    /// Many demands for few lines: even without steps there is a plan, and a good one.
    #[test]
    fn without_steps_the_greedy_plan_stands() {
        let mut random = Pcg64::seed_from_u64(2);
        let demands: Vec<Demand> = (0..40)
            .flat_map(|_| random_demands(&mut random, false))
            .collect();
        let plan = solve(&demands, 8, 1, 0);
        let solved = solve(&demands, 8, 1, 10_000);
        assert_eq!(solved.proof, Proof::Best);
        let values = [&plan, &solved].map(|plan| value(&demands, &plan.placed));
        assert!(
            values[0] * 2 >= values[1] && values[0] <= values[1],
            "{values:?}"
        );
    }
}
