//! Adds the cache (B-Cache) to the P4Info of a program.

use thalweg_control::proto::p4::config::v1 as info;
use thalweg_control::proto::p4::config::v1::p4_ids::Prefix;
use thalweg_p4::behavior::transform::{PREFIX, Plan};

/// Bits of the epoch; the next constant has those of the detector's counters.
const EPOCH_BITS: i32 = 32;
const COUNTER_BITS: i32 = 16;
/// Counters in a row of the detector.
const ROW: i32 = 1 << 16;

/// Adds the cache's objects to P4Info.
///
/// These are the tables `bcache.begin` and `bcache.cache`, their actions, and the detector's
/// registers and digest.
pub fn with_cache(p4info: &info::P4Info, plan: &Plan) -> info::P4Info {
    let mut new = p4info.clone();
    let mut ids = Ids::of(p4info);
    let begin = add_action(
        &mut new,
        &mut ids,
        "begin",
        &[("epoch".to_owned(), EPOCH_BITS as u32)],
    );
    let miss = add_action(&mut new, &mut ids, "miss", &[]);
    let mut actions = vec![miss];
    for action in &plan.actions {
        let name = action.name.strip_prefix(PREFIX).unwrap_or(&action.name);
        let name = name.trim_start_matches('.').to_owned();
        actions.push(add_action(
            &mut new,
            &mut ids,
            &name,
            &plan.data_widths(action),
        ));
    }
    let fields = plan.key.iter().zip(1..).map(|(part, id)| info::MatchField {
        id,
        name: part.name(),
        bitwidth: part.width_bits as i32,
        r#match: Some(info::match_field::Match::MatchType(
            info::match_field::MatchType::Exact as i32,
        )),
        ..info::MatchField::default()
    });
    let fields = fields.collect();
    new.tables
        .push(table(&mut ids, "begin", Vec::new(), &[begin], 0));
    let size = i64::from(plan.entries);
    new.tables
        .push(table(&mut ids, "cache", fields, &actions, size));
    for (name, size) in [("row_0", ROW), ("row_1", ROW), ("threshold", 1)] {
        new.registers.push(info::Register {
            preamble: Some(ids.preamble(Prefix::Register, name)),
            type_spec: Some(bits(COUNTER_BITS)),
            size,
            ..info::Register::default()
        });
    }
    let members = plan
        .report_bits()
        .into_iter()
        .map(|width| bits(width as i32));
    let tuple = info::P4TupleTypeSpec {
        members: members.collect(),
    };
    new.digests.push(info::Digest {
        preamble: Some(ids.preamble(Prefix::Digest, "report")),
        type_spec: Some(info::P4DataTypeSpec {
            type_spec: Some(info::p4_data_type_spec::TypeSpec::Tuple(tuple)),
        }),
    });
    new
}

fn add_action(
    new: &mut info::P4Info,
    ids: &mut Ids,
    name: &str,
    parameters: &[(String, u32)],
) -> u32 {
    let preamble = ids.preamble(Prefix::Action, name);
    let id = preamble.id;
    let parameters = parameters.iter().zip(1..);
    let params = parameters.map(|((name, width), id)| info::action::Param {
        id,
        name: name.clone(),
        bitwidth: *width as i32,
        ..info::action::Param::default()
    });
    new.actions.push(info::Action {
        preamble: Some(preamble),
        params: params.collect(),
    });
    id
}

fn table(
    ids: &mut Ids,
    name: &str,
    match_fields: Vec<info::MatchField>,
    actions: &[u32],
    size: i64,
) -> info::Table {
    let refs = actions.iter().map(|&id| info::ActionRef {
        id,
        ..info::ActionRef::default()
    });
    let is_keyed = !match_fields.is_empty();
    info::Table {
        preamble: Some(ids.preamble(Prefix::Table, name)),
        match_fields,
        action_refs: refs.collect(),
        // A miss of the cache table stays a miss; the default of `begin` gives the epoch, so it
        // may change.
        const_default_action_id: if is_keyed { actions[0] } else { 0 },
        size,
        ..info::Table::default()
    }
}

fn bits(bitwidth: i32) -> info::P4DataTypeSpec {
    use info::p4_bitstring_like_type_spec::TypeSpec;
    let bit = TypeSpec::Bit(info::P4BitTypeSpec { bitwidth });
    let bitstring = info::P4BitstringLikeTypeSpec {
        type_spec: Some(bit),
        ..info::P4BitstringLikeTypeSpec::default()
    };
    info::P4DataTypeSpec {
        type_spec: Some(info::p4_data_type_spec::TypeSpec::Bitstring(bitstring)),
    }
}

/// Allocates free ids.
struct Ids {
    used: std::collections::BTreeSet<u32>,
}

impl Ids {
    fn of(p4info: &info::P4Info) -> Ids {
        let preambles = (p4info.tables.iter().map(|one| &one.preamble))
            .chain(p4info.actions.iter().map(|one| &one.preamble))
            .chain(p4info.registers.iter().map(|one| &one.preamble))
            .chain(p4info.digests.iter().map(|one| &one.preamble));
        Ids {
            used: preambles.flatten().map(|preamble| preamble.id).collect(),
        }
    }

    fn preamble(&mut self, prefix: Prefix, name: &str) -> info::Preamble {
        let first = (prefix as u32) << 24 | 0xbc_0000;
        let id = (first..).find(|id| self.used.insert(*id)).unwrap_or(first);
        let name = format!("{PREFIX}.{name}");
        info::Preamble {
            id,
            alias: name.clone(),
            name,
            ..info::Preamble::default()
        }
    }
}
