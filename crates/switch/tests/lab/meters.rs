//! Meters for random rules.

use rand::Rng;
use rand_pcg::Pcg64Mcg;
use thalweg_pipeline::{
    Action, BandKind, Change, Flow, MeterId, Operation, RateBand, RateMeter, RateUnit,
};

/// Numbers of the meters: those that rules name, and that of packets for controllers.
const NUMBERS: [u32; 4] = [1, 2, 3, MeterId::CONTROLLER];

/// Sets a meter. `drops` says whether it may drop packets.
///
/// The interpreter finishes one packet of a burst before the next. The caches first look up each
/// once, so that packets that are looked up again meet their meters in another order.
fn any_meter(random: &mut Pcg64Mcg, number: u32, drops: bool) -> Operation {
    let unit = match random.random_ratio(1, 2) {
        true => RateUnit::Kilobits,
        false => RateUnit::Packets,
    };
    let bands = (0..random.random_range(1..4)).map(|_| RateBand {
        kind: match random.random_ratio(1, 3) {
            true => BandKind::Remark {
                levels: random.random_range(1..4),
            },
            false => BandKind::Drop,
        },
        rate: random.random_range(1..9),
        burst: match drops {
            true => random.random_range(1..40),
            false => u32::MAX,
        },
    });
    Operation::SetMeter(RateMeter {
        id: MeterId(number.into()),
        unit,
        bands: bands.collect(),
        has_burst: true,
        has_statistics: true,
    })
}

/// All meters.
pub(crate) fn all_meters(random: &mut Pcg64Mcg, drops: bool) -> Change {
    let operations = NUMBERS.map(|number| any_meter(random, number, drops));
    Change {
        operations: operations.into(),
    }
}

/// Modifies a meter, or removes it with its rules and adds another with its number.
pub(crate) fn another_meter(random: &mut Pcg64Mcg, drops: bool) -> Change {
    let number = NUMBERS[random.random_range(0..NUMBERS.len())];
    let mut operations = Vec::new();
    if random.random_ratio(1, 4) {
        let gone = [MeterId(number.into())].into();
        operations.push(Operation::DeleteMeters(gone));
    }
    operations.push(any_meter(random, number, drops));
    Change { operations }
}

/// Lets some of the rules that a change adds measure packets.
pub(crate) fn metered(random: &mut Pcg64Mcg, mut change: Change) -> Change {
    for operation in &mut change.operations {
        let is_clause = |action: &Action| matches!(action, Action::Conjunction { .. });
        if let Operation::Add(flow) = operation
            && !flow.actions.iter().any(is_clause)
            && random.random_ratio(1, 4)
        {
            measure(random, flow);
        }
    }
    change
}

fn measure(random: &mut Pcg64Mcg, flow: &mut Flow) {
    let mut actions = flow.actions.to_vec();
    let is_instruction = |action: &Action| {
        matches!(
            action,
            Action::ClearActions
                | Action::WriteActions(_)
                | Action::WriteMetadata { .. }
                | Action::Goto(_)
        )
    };
    let end = actions.iter().position(is_instruction);
    let place = random.random_range(0..=end.unwrap_or(actions.len()));
    let number = NUMBERS[random.random_range(0..3)];
    actions.insert(place, Action::Meter(MeterId(number.into())));
    flow.actions = actions.into();
}
