//! Tests every simple_switch_CLI command of a file, and the target's state after it.

use num_bigint::BigUint;
use serde_json::{Value, json};
use thalweg_p4::commands::{Reader, parse, parse_all};
use thalweg_p4::program::ids::{
    CalculationId, CounterId, MeterId, ProfileId, RegisterId, TableId, ValueSetId,
};
use thalweg_p4::program::table::Match;
use thalweg_p4::state::{CrcParameters, Entry, Replica, State, Update};
use thalweg_p4::{Config, Outbox, Program, Target};
use thalweg_packet::Instant;

use crate::bed::*;

const SIMPLE: TableId = TableId(0);
const CHOICE: TableId = TableId(1);
const PROFILE: ProfileId = ProfileId(0);

/// A program with everything that commands write.
///
/// It has a table with counters, meters and timeouts, one with a profile, one array of each
/// kind, a value set, and a CRC with parameters.
fn value() -> Value {
    let actions = json!([
        {"name": "set", "id": 0, "runtime_data": [{"name": "port", "bitwidth": 9}],
            "primitives": [assign(standard("egress_spec"), argument(0))]},
        {"name": "out", "id": 1, "runtime_data": [], "primitives": []},
    ]);
    let simple = json!({"name": "in.simple", "id": 0, "key": [{"match_type": "exact", "name": "a",
        "target": ["h", "a"], "mask": null}], "match_type": "exact", "type": "simple",
        "max_size": 8, "with_counters": true, "support_timeout": true,
        "direct_meters": "in.meters", "action_ids": [0], "actions": ["set"],
        "base_default_next": "choice", "next_tables": {"set": "choice"},
        "default_entry": {"action_id": 0, "action_const": false, "action_data": ["0x1"],
            "action_entry_const": false}});
    let choice = json!({"name": "choice", "id": 1, "key": [{"match_type": "exact", "name": "b",
        "target": ["h", "b"], "mask": null}], "match_type": "exact", "type": "indirect_ws",
        "action_profile": "profile", "max_size": 8, "with_counters": false,
        "support_timeout": false, "direct_meters": null, "action_ids": [0], "actions": ["set"],
        "base_default_next": null, "next_tables": {"set": null}});
    let mut value = with_tables(actions, json!([simple, choice]), json!([bare("out", 1)]));
    value["parse_vsets"] = json!([{"name": "values", "id": 0, "compressed_bitwidth": 24,
        "max_size": 4}]);
    value["calculations"][0]["algo"] = json!("crc16_custom");
    let push = |array: &mut Value, one| array.as_array_mut().expect("it").push(one);
    push(
        &mut value["meter_arrays"],
        json!({"name": "in.meters", "id": 1, "is_direct": true, "rate_count": 2,
            "type": "packets", "binding": "in.simple", "result_target": ["scalars", "color"]}),
    );
    push(
        &mut value["counter_arrays"],
        json!({"name": "in.hits", "id": 1, "is_direct": true, "binding": "in.simple"}),
    );
    value
}

fn program() -> Program {
    of(&value())
}

fn of(value: &Value) -> Program {
    Program::from_json(&value.to_string()).unwrap_or_else(|error| panic!("{error}"))
}

/// A target that reads one line after the other.
struct Told<'p> {
    reader: Reader<'p>,
    target: Target,
}

impl Told<'_> {
    fn new(program: &Program) -> Told<'_> {
        let target = Target::new(program.clone().into(), Config::default());
        Told {
            reader: Reader::new(program),
            target: target.expect("no entries"),
        }
    }

    /// Does a line's updates, unless the reader or the target refuses them.
    fn say(&mut self, line: &str) -> Result<Vec<Update>, String> {
        let commands = self.reader.read_line(line).map_err(|error| error.what)?;
        let updates: Vec<Update> = commands.into_iter().map(|one| one.update).collect();
        let written = self.target.write(&updates, Instant::ZERO);
        written.map_err(|failed| {
            self.reader.take_back();
            failed.error.to_string()
        })?;
        Ok(updates)
    }

    fn all(&mut self, text: &str) {
        for line in text.lines() {
            let said = self.say(line);
            said.unwrap_or_else(|error| panic!("{line}: {error}"));
        }
    }

    fn state(&mut self) -> &State {
        self.target.state()
    }

    /// The port of a packet with this `a` and `b`.
    fn port(&mut self, a: u8, b: u8) -> Option<u32> {
        let mut outbox = Outbox::new();
        let packet = [a, b, 0, 0, 0, 0, 0, 0];
        self.target.receive(1, &packet, Instant::ZERO, &mut outbox);
        outbox.sent().map(|sent| sent.port).next()
    }
}

#[test]
fn defaults_and_timeouts() {
    let program = program();
    let mut told = Told::new(&program);
    told.all("table_set_default simple set 5\ntable_add simple set 3 => 7");
    assert_eq!((told.port(0, 0), told.port(3, 0)), (Some(5), Some(7)));
    told.all("table_reset_default in.simple\ntable_set_timeout simple 0 250");
    assert_eq!(told.port(0, 0), Some(1), "what the program says");
    let entries = told.state().entries(&program, SIMPLE);
    assert_eq!(entries[0].idle_timeout_ns, 250_000_000);
    told.all("table_modify simple set 0 9");
    let entries = told.state().entries(&program, SIMPLE);
    assert_eq!(entries[0].idle_timeout_ns, 250_000_000, "it has its own");
    assert_eq!(told.port(3, 0), Some(9));
    for (line, says) in [
        ("table_set_timeout simple 1 5", "no entry 1"),
        ("table_set_timeout simple 0", "it is table_set_timeout"),
        (
            "table_reset_default simple now",
            "it is table_reset_default",
        ),
    ] {
        let error = told.say(line).expect_err(line);
        assert!(error.contains(says), "{line}: {error}");
    }
}

/// As on simple_switch, only the program's own default may be written again.
#[test]
fn a_constant_default_is_reset_to_itself() {
    let mut value = value();
    let default = &mut value["pipelines"][0]["tables"][0]["default_entry"];
    default["action_const"] = json!(true);
    default["action_entry_const"] = json!(true);
    let program = of(&value);
    let mut told = Told::new(&program);
    told.all("table_reset_default simple");
    let constant = told.say("table_set_default simple set 1");
    assert!(constant.is_err_and(|error| error.contains("constant")));
    assert_eq!(told.port(0, 0), Some(1));
}

/// Members and groups come and go; the next handle is the lowest free one.
#[test]
fn profiles_in_all_their_commands() {
    let program = program();
    let mut told = Told::new(&program);
    told.all(
        "act_prof_create_member profile set 11\nact_prof_create_member profile set => 12\n\
         table_indirect_create_member choice set 13\nact_prof_create_group profile\n\
         act_prof_add_member_to_group profile 0 0\nact_prof_add_member_to_group profile 2 0\n\
         table_indirect_add_with_group choice 0 => 0\ntable_indirect_add choice 1 => 1",
    );
    // The hash is `a`.
    assert_eq!(told.port(0, 0), Some(11));
    assert_eq!((told.port(1, 0), told.port(0, 1)), (Some(13), Some(12)));
    told.all(
        "act_prof_remove_member_from_group profile 0 0\nact_prof_modify_member profile set 1 => 22",
    );
    assert_eq!((told.port(0, 0), told.port(0, 1)), (Some(13), Some(22)));
    for (line, says) in [
        (
            "act_prof_remove_member_from_group profile 0 0",
            "not in the group",
        ),
        ("act_prof_delete_member profile 1", "in use"),
        ("act_prof_delete_group profile 0", "in use"),
        ("act_prof_delete_group profile 1", "no group 1"),
        ("act_prof_delete_member profile 7", "no member 7"),
        ("act_prof_modify_member profile fly 0", "no action"),
        ("act_prof_create_member simple set 1", "no action profile"),
    ] {
        let error = told.say(line).expect_err(line);
        assert!(error.contains(says), "{line}: {error}");
    }
    // A refused member takes no handle; a free place is reused.
    let refused = told.say("act_prof_create_member profile set 600");
    assert!(refused.is_err(), "it does not fit into nine bits");
    told.all("act_prof_delete_member profile 0\nact_prof_create_member profile set 14");
    let members = |told: &mut Told<'_>| {
        told.state()
            .members(PROFILE)
            .iter()
            .map(|one| one.0)
            .collect()
    };
    let ids: Vec<u32> = members(&mut told);
    assert_eq!(ids, [0, 1, 2]);
    told.all(
        "table_indirect_delete choice 0\nact_prof_delete_group profile 0\n\
         act_prof_delete_member profile 2\nact_prof_create_group profile",
    );
    let ids: Vec<u32> = members(&mut told);
    assert_eq!(ids, [0, 1]);
    assert_eq!(told.state().groups(PROFILE), [(0, &[][..])]);
    assert_eq!(told.state().entry_count(CHOICE), 1);
}

#[test]
fn multicast_groups_and_their_nodes() {
    let program = program();
    let mut told = Told::new(&program);
    let copies = |told: &mut Told<'_>| {
        let copies = told.state().multicast(7).expect("a group").iter();
        let copies = copies.map(|Replica { port, instance }| (*port, *instance));
        copies.collect::<Vec<_>>()
    };
    told.all(
        "mc_mgrp_create 7\nmc_node_create 3 2 1\nmc_node_create 4 9\nmc_node_associate 7 1\n\
         mc_node_associate 7 0",
    );
    assert_eq!(copies(&mut told), [(9, 4), (1, 3), (2, 3)]);
    told.all("mc_node_update 1 8 6");
    assert_eq!(copies(&mut told), [(6, 4), (8, 4), (1, 3), (2, 3)]);
    for (line, says) in [
        ("mc_mgrp_create 7", "already"),
        ("mc_node_associate 7 1", "in group 7 already"),
        ("mc_node_associate 8 1", "no group 8"),
        ("mc_node_dissociate 7 5", "no node 5"),
        ("mc_node_create 1 2 | 3", "no LAGs"),
        ("mc_node_update 0 4 4", "port 4 twice"),
        ("mc_mgrp_destroy 9", "no group 9"),
    ] {
        let error = told.say(line).expect_err(line);
        assert!(error.contains(says), "{line}: {error}");
    }
    told.all("mc_node_dissociate 7 1\nmc_node_update 1 5");
    assert_eq!(copies(&mut told), [(1, 3), (2, 3)]);
    assert!(told.say("mc_node_dissociate 7 1").is_err());
    told.all("mc_node_associate 7 1\nmc_node_destroy 0");
    assert_eq!(copies(&mut told), [(5, 4)]);
    // The place is free again; the group's nodes outlive it.
    told.all("mc_node_create 9 4\nmc_node_associate 7 0\nmc_mgrp_destroy 7");
    assert_eq!(told.state().multicast(7), None);
    told.all("mc_mgrp_create 7\nmc_node_associate 7 0\nmc_node_associate 7 1");
    assert_eq!(copies(&mut told), [(4, 9), (5, 4)]);
    told.all("mirroring_add 3 1\nmirroring_add_mc 4 7\nmirroring_delete 3");
    assert!(told.state().mirror(3).is_none());
    let group = told.state().mirror(4).and_then(|mirror| mirror.group);
    assert_eq!(group, Some(7));
    assert!(told.say("mirroring_delete 3").is_err(), "it is gone");
}

#[test]
fn arrays_and_the_cells_of_entries() {
    let program = program();
    let mut told = Told::new(&program);
    told.all(
        "table_add simple set 3 => 7\ntable_add simple set 4 => 7\n\
         counter_write counter 2 5 600\ncounter_write hits 1 6 700\n\
         meter_array_set_rates meter 0.5:3 1:6\nmeter_set_rates in.meters 0 0.1:1 0.2:2\n\
         register_write register 1 77\nregister_write register 3 78",
    );
    let entry = |told: &mut Told<'_>, a: u32| {
        let found = told
            .state()
            .entry(&program, SIMPLE, &[Match::Exact(a.into())], 0);
        let seen = |entry: &Entry| {
            (
                entry.counter().packets,
                entry.counter().bytes,
                entry.meter(),
            )
        };
        seen(found.expect("a key").expect("it is there"))
    };
    let counter = |told: &mut Told<'_>| told.state().counter(CounterId(0), 2).expect("a cell");
    assert_eq!(
        (counter(&mut told).packets, counter(&mut told).bytes),
        (5, 600)
    );
    let (packets, bytes, rates) = entry(&mut told, 4);
    assert_eq!((packets, bytes, rates), (6, 700, None));
    let rates = entry(&mut told, 3).2.expect("it has rates");
    assert_eq!((rates.committed.per_second, rates.peak.burst), (100_000, 2));
    for cell in 0..2 {
        let rates = told.state().meter(MeterId(0), cell).expect("it has rates");
        assert_eq!((rates.committed.per_second, rates.peak.burst), (500_000, 6));
    }
    let register = |told: &mut Told<'_>, cell| {
        let value = told.state().register(&program, RegisterId(0), cell);
        value.expect("a cell")
    };
    assert_eq!(register(&mut told, 3), BigUint::from(78_u8));
    told.all("counter_reset counter\ncounter_reset hits\nregister_reset register");
    assert_eq!(counter(&mut told).packets, 0);
    assert_eq!(entry(&mut told, 4).0, 0);
    assert!((0..4).all(|cell| register(&mut told, cell) == BigUint::ZERO));
    for (line, says) in [
        ("counter_write hits 2 1 1", "no entry 2"),
        ("counter_write counter 4 1 1", "4"),
        ("counter_reset nothing", "no counter"),
        ("meter_array_set_rates meter 1:1", "takes 2 rates"),
        ("meter_set_rates meter 0", "takes 2 rates"),
        ("register_reset nothing", "no register"),
    ] {
        let error = told.say(line).expect_err(line);
        assert!(error.contains(says), "{line}: {error}");
    }
}

/// The meters of entries are also an array as long as the table: entries added later find their
/// cells set.
#[test]
fn all_meters_of_a_table_are_set() {
    let program = program();
    let mut told = Told::new(&program);
    let rates = |told: &mut Told<'_>, a: u32| {
        let key = [Match::Exact(a.into())];
        let found = told.state().entry(&program, SIMPLE, &key, 0);
        let entry = found.expect("a key").expect("it is there");
        entry.meter().map(|rates| rates.committed.per_second)
    };
    told.all("meter_array_set_rates in.meters 0.5:3 1:6\ntable_add simple set 3 => 7");
    assert_eq!(rates(&mut told, 3), Some(500_000));
    told.all(
        "table_add simple set 4 => 7\nmeter_set_rates meters 1 0.1:3 1:6\n\
         meter_array_set_rates meters 0.2:3 1:6\nmeter_set_rates in.meters 0 0.7:3 1:6\n\
         table_add simple set 5 => 7",
    );
    let all = [3, 4, 5].map(|a| rates(&mut told, a));
    assert_eq!(all, [Some(700_000), Some(200_000), Some(200_000)]);
    // A line that was taken back sets nothing.
    let refused = told
        .reader
        .read_line("meter_array_set_rates in.meters 9:3 9:6");
    assert_eq!(refused.map(|asked| asked.len()), Ok(3));
    told.reader.take_back();
    told.all("table_add simple set 6 => 7");
    assert_eq!(rates(&mut told, 6), Some(200_000));
    let wrong = told.say("meter_array_set_rates in.meters 1:1");
    assert!(wrong.is_err_and(|error| error.contains("takes 2 rates")));
}

/// The port does not fit into the program's nine bits.
#[test]
fn copies_go_to_ports_that_the_program_has() {
    let program = program();
    let mut told = Told::new(&program);
    told.all("mirroring_add 3 511\nmc_mgrp_create 7\nmc_node_create 1 512");
    for line in ["mirroring_add 3 512", "mc_node_associate 7 0"] {
        let error = told.say(line).expect_err(line);
        assert!(error.contains("port 512 does not fit"), "{error}");
    }
    assert_eq!(told.state().multicast(7), Some(&[][..]));
}

/// Each error names the word that it concerns.
#[test]
fn faults_have_their_columns() {
    let program = program();
    for (line, column, says) in [
        ("  fly away", 3, "not supported"),
        ("// a comment", 1, "begins with `#`"),
        ("table_add simpler set 3 => 7", 11, "no table"),
        ("table_add simple fly 3 => 7", 18, "no action"),
        (
            "table_add simple set 300 => 7",
            22,
            "does not fit into the 8 bits",
        ),
        ("table_add simple set 3/4 => 7", 22, "is matched as Exact"),
        (
            "table_add simple set x => 7",
            22,
            "neither a number nor an address",
        ),
        ("table_add simple set 3 4 => 7", 24, "has 1 parts, not 2"),
        ("table_add simple set => 7", 11, "has 1 parts, not 0"),
        (
            "table_add simple set 3 =>  512",
            28,
            "does not fit into the 9 bits",
        ),
        (
            "table_add simple set 3 => 7 8",
            18,
            "takes 1 parameters, not 2",
        ),
        ("table_delete simple 4", 21, "no entry 4"),
        (
            "act_prof_create_member profile set 600",
            36,
            "does not fit into the 9 bits",
        ),
        ("act_prof_delete_member profile 2", 32, "no member 2"),
        ("mc_node_create 1 2 3 2", 22, "port 2 twice"),
        ("meter_set_rates meter 0 1:1 x", 29, "no RATE:BURST"),
        ("register_write register 1 é", 27, "neither a number"),
        ("counter_write counter 1 x 2", 25, "neither a number"),
        (
            "set_crc16_parameters hash 1 1 1 0 maybe",
            35,
            "neither true nor false",
        ),
    ] {
        let mut reader = Reader::new(&program);
        let error = reader.read_line(line).expect_err(line);
        assert_eq!((error.line, error.column), (1, column), "{line}: {error}");
        assert!(error.what.contains(says), "{line}: {error}");
    }
}

/// All unreadable lines are reported; the others are returned.
#[test]
fn a_file_is_read_with_all_its_faults() {
    let text = "# comment\ntable_add simple set 3 => 7\n// no comment\nport_add veth0 1\n\
        table_add simple set 300 => 7\ntable_add simple set 4 => 7\ntable_modify simple set 1 8\n";
    let (commands, faults) = parse_all(text, &program());
    let lines: Vec<usize> = commands.iter().map(|one| one.line).collect();
    assert_eq!(lines, [2, 6, 7]);
    let places: Vec<_> = faults.iter().map(|one| (one.line, one.column)).collect();
    assert_eq!(places, [(3, 1), (4, 1), (5, 22)]);
    let first = parse(text, &program()).expect_err("it has faults");
    assert_eq!(Some(&first), faults.first());
    assert!(
        first.to_string().starts_with("line 3, column 1: "),
        "{first}"
    );
}

#[test]
fn value_sets_and_parameters_of_hashes() {
    let program = program();
    let mut told = Told::new(&program);
    let values = |told: &mut Told<'_>| {
        let values = told.state().values(ValueSetId(0));
        values.cloned().collect::<Vec<BigUint>>()
    };
    let numbers = |numbers: &[u8]| {
        numbers
            .iter()
            .map(|&one| one.into())
            .collect::<Vec<BigUint>>()
    };
    told.all("pvs_add values 7\npvs_add values 9\npvs_add values 7\npvs_remove values 1");
    assert_eq!(values(&mut told).len(), 2, "a set has each once");
    told.all("pvs_remove values 7");
    assert_eq!(values(&mut told), numbers(&[9]));
    told.all("pvs_clear values\npvs_add values 8");
    assert_eq!(values(&mut told), numbers(&[8]));
    let updates = told.say("set_crc16_parameters hash 0x1021 ffff 0 false True");
    let parameters = CrcParameters {
        polynomial: 0x1021,
        initial: 0xffff,
        final_xor: 0,
        is_data_reflected: false,
        is_remainder_reflected: true,
    };
    assert_eq!(
        updates,
        Ok(vec![Update::SetCrc(CalculationId(0), parameters)])
    );
    for (line, says) in [
        ("set_crc32_parameters hash 1 1 1 0 0", "no Crc32Custom"),
        ("set_crc16_parameters hash 10000 1 1 0 0", "16 bits"),
        (
            "set_crc16_parameters hash 1 1 1 0 maybe",
            "neither true nor false",
        ),
        ("set_crc16_parameters hash", "it is set_crc16_parameters"),
        ("pvs_remove nothing 1", "no value set"),
    ] {
        let error = told.say(line).expect_err(line);
        assert!(error.contains(says), "{line}: {error}");
    }
}

#[test]
fn what_only_looks_is_passed_over_and_what_is_unknown_is_not() {
    let program = program();
    let looks = "show_tables\ntable_dump simple\nmc_dump\nmirroring_get 1\ntable_num_entries t\n";
    assert_eq!(parse(looks, &program), Ok(Vec::new()));
    for unknown in [
        "reset_state",
        "port_add veth0 1",
        "set_queue_rate 100",
        "swap_configs",
    ] {
        let error = parse(unknown, &program).expect_err(unknown);
        assert!(error.to_string().contains("not supported"), "{error}");
    }
}
