//! Measures Figure 10: the delays of a report and of a change.

use std::time::{Duration, Instant as Clock};

use anyhow::{Context, Result};
use num_bigint::BigUint;
use serde::Serialize;
use thalweg_p4::cache::behavior::BehaviorConfig;
use thalweg_p4::program::ids::TableId;
use thalweg_p4::program::table::{Match, MatchKind};
use thalweg_p4::state::{TableEntry, Update};
use thalweg_p4::{Outbox, Target, TraceStep};
use thalweg_packet::Instant;

use super::case::{Case, DESTINATION, NETWORK, set_ttl};
use crate::spread::Spread;

/// The tested rates of reports.
const RATES: [u64; 5] = [100, 400, 1_000, 10_000, 100_000];

/// The delay at a rate of reports.
#[derive(Serialize, Clone, Debug)]
pub(super) struct ReportRow {
    pub(super) reports_per_second: u64,
    pub(super) delay_us: Spread,
}

/// The delay of a change that affects `affected` behaviours.
#[derive(Serialize, Clone, Debug)]
pub(super) struct BarrierRow {
    pub(super) affected: usize,
    pub(super) behaviors: usize,
    pub(super) delay_us: Spread,
}

fn micros(elapsed: Duration) -> f64 {
    elapsed.as_secs_f64() * 1e6
}

/// Measures evenly spaced reports; each replaces the oldest behaviour.
pub(super) fn manager(case: &Case, repetitions: usize) -> Result<Vec<ReportRow>> {
    let mut rows = Vec::new();
    for rate in RATES {
        let mut target = case.target(Some(BehaviorConfig {
            entries: 16,
            threshold: 0,
            reports_per_packet: 0,
            rests: false,
            ..BehaviorConfig::default()
        }))?;
        let mut outbox = Outbox::new();
        let interval = Duration::from_nanos(1_000_000_000 / rate);
        let mut delays = Vec::new();
        let mut due = Clock::now();
        for round in 0.. {
            let mut packet = case.packet.clone();
            set_ttl(&mut packet, 100 + (round % 64) as u8);
            while Clock::now() < due {
                std::hint::spin_loop();
            }
            due += interval;
            outbox.clear();
            target.receive(case.port, &packet, Instant::ZERO, &mut outbox);
            let start = Clock::now();
            let installed = target.install(1);
            let delay = micros(start.elapsed());
            // Installs the packet's other report, of egress.
            target.install(usize::MAX);
            if installed == 1 && round >= 32 {
                delays.push(delay);
            }
            if delays.len() == repetitions || round > 100 * repetitions + 32 {
                break;
            }
        }
        if !delays.is_empty() {
            rows.push(ReportRow {
                reports_per_second: rate,
                delay_us: Spread::of(&delays),
            });
        }
    }
    Ok(rows)
}

/// Measures changes of routes that cover more and more of the flows.
pub(super) fn barrier(
    case: &Case,
    behaviors: usize,
    repetitions: usize,
) -> Result<Vec<BarrierRow>> {
    let mut target = case.target(Some(BehaviorConfig {
        entries: behaviors.max(1) * 2,
        threshold: 0,
        reports_per_packet: 10,
        rests: false,
        ..BehaviorConfig::default()
    }))?;
    let (table, entry, part) = route(&mut target, case)?;
    let prefix = |address: u32, length: u32| {
        let mut route = entry.clone();
        route.matches[part] = Match::Lpm(BigUint::from(address), length);
        route
    };
    let insert = |route: &TableEntry| Update::InsertEntry(table, route.clone());
    let all = [insert(&prefix(NETWORK, 16))];
    target
        .write(&all, Instant::ZERO)
        .context("the flows' route")?;
    let mut rows = Vec::new();
    let mut length = 32;
    while length >= 16 {
        let mut delays = Vec::new();
        let (mut affected, mut there) = (0, 0);
        for _ in 0..repetitions {
            fill(&mut target, case, behaviors);
            let counts = |target: &Target| target.behavior_counts().map_or(0, |one| one.affected);
            there = target.behavior_count();
            let before = counts(&target);
            // At most as long as the network's prefix, so that it is a different entry.
            let change = prefix(NETWORK, length);
            let update = match length {
                16 => Update::ModifyEntry(table, change.clone()),
                _ => insert(&change),
            };
            let start = Clock::now();
            let written = target.write(&[update], Instant::ZERO);
            delays.push(micros(start.elapsed()));
            written.context("a route")?;
            affected = (counts(&target) - before) as usize;
            if length != 16 {
                let gone = Update::DeleteEntry(table, change.matches, change.priority);
                target.write(&[gone], Instant::ZERO).context("a route")?;
            }
        }
        rows.push(BarrierRow {
            affected,
            behaviors: there,
            delay_us: Spread::of(&delays),
        });
        if affected >= behaviors {
            break;
        }
        length -= 2;
    }
    Ok(rows)
}

/// The table that routes the case's packet, the route's entry, and the index of its prefix
/// match.
///
/// # Errors
/// If no table with a prefix routes the packet.
pub(super) fn route(target: &mut Target, case: &Case) -> Result<(TableId, TableEntry, usize)> {
    let mut outbox = Outbox::new();
    let steps = target.trace(case.port, &case.packet, Instant::ZERO, &mut outbox);
    let program = target.program().clone();
    for step in steps {
        let TraceStep::Table(table, Some(_), _) = step else {
            continue;
        };
        let key = &program.table(table).key;
        let part = key.iter().position(|part| part.kind == MatchKind::Lpm);
        let entries = target.state().entries(&program, table);
        if let Some(part) = part {
            let destination = &case.packet[DESTINATION..DESTINATION + 4];
            let address = BigUint::from_bytes_be(destination);
            let covers = |entry: &&TableEntry| match &entry.matches[part] {
                Match::Lpm(value, length) => value >> (32 - length) == &address >> (32 - length),
                Match::Any => true,
                _ => false,
            };
            let found = entries.iter().find(covers).cloned();
            let found = found.context("the packet's route is not in its table")?;
            return Ok((table, found, part));
        }
    }
    anyhow::bail!(
        "case {} routes its packet by no table with a prefix",
        case.name
    )
}

/// Sends packets until every flow is remembered.
fn fill(target: &mut Target, case: &Case, behaviors: usize) {
    let mut outbox = Outbox::new();
    // One packet makes the behaviour hot; the next one installs its report.
    for _ in 0..2 {
        for flow in 0..behaviors as u32 {
            let packet = case.packet_to(NETWORK + flow);
            outbox.clear();
            target.receive(case.port, &packet, Instant::ZERO, &mut outbox);
        }
    }
}
