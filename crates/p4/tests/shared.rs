//! Runs p4c's and BMv2's own programs from the shared data.
//!
//! The folder is too large to commit and not ours; `$THALWEG_SHARED` names it.

mod files;
mod pair;

use std::path::Path;
use std::sync::Arc;

use files::{files, folder};
use thalweg_p4::cache::behavior::{BehaviorConfig, Unfit};
use thalweg_p4::stf::{Script, Statement, run};
use thalweg_p4::{Config, Program, Target};

fn load(path: &Path) -> Result<Program, String> {
    let text = std::fs::read_to_string(path).expect("the file");
    Program::from_json(&text).map_err(|error| error.to_string())
}

fn name(path: &Path) -> String {
    path.file_stem()
        .expect("a name")
        .to_string_lossy()
        .into_owned()
}

#[test]
fn every_vector_of_p4c_passes() {
    let scripts = files("stf", ".stf");
    assert!(scripts.len() >= 165, "only {} vectors", scripts.len());
    let mut failed = Vec::new();
    for path in &scripts {
        let outcome = load(&path.with_extension("json")).and_then(|program| {
            let text = std::fs::read_to_string(path).expect("the file");
            let script = Script::parse(&text).map_err(|error| error.to_string())?;
            let target = Target::new(Arc::new(program), Config::default());
            let mut target = target.map_err(|error| error.to_string())?;
            let failures = run(&script, &mut target);
            match failures.is_empty() {
                true => Ok(()),
                false => Err(format!("{failures:?}")),
            }
        });
        if let Err(what) = outcome {
            failed.push(format!("{}: {what}", name(path)));
        }
    }
    assert!(
        failed.is_empty(),
        "{} failed:\n{}",
        failed.len(),
        failed.join("\n")
    );
}

/// BMv2's own tests: complete v1model programs run, the others are refused with a reason.
#[test]
fn bmv2s_own_programs_run_or_say_why_not() {
    let mut lines = Vec::new();
    for path in files("bmv2-testdata", ".json") {
        let outcome = match load(&path) {
            Ok(program) => described(&program, run_bytes(program.clone())),
            Err(why) => format!("refused: {why}"),
        };
        lines.push(format!("{}: {outcome}\n", name(&path)));
    }
    expect_test::expect_file!["bmv2_programs.txt"].assert_eq(&lines.concat());
}

/// The large data planes, and the programs of the measurements.
#[test]
fn large_programs_run() {
    for folder in ["large", "l2l3", "chain"] {
        let programs = files(folder, ".json");
        assert!(programs.len() >= 3, "{folder}");
        for path in programs {
            let program = load(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
            assert!(!program.tables.is_empty(), "{}", path.display());
            run_bytes(program);
        }
    }
}

fn described(program: &Program, received: u64) -> String {
    format!(
        "{} tables, {} actions, {} parser states; ran {received} packets",
        program.tables.len(),
        program.actions.len(),
        program.parser.states.len(),
    )
}

/// Packets of any bytes and length: nothing panics, and each packet ends.
fn run_bytes(program: Program) -> u64 {
    let mut target = Target::new(Arc::new(program), Config::default()).expect("own entries");
    let mut outbox = thalweg_p4::Outbox::new();
    let mut byte = 1_u32;
    for length in 0..200 {
        let bytes: Vec<u8> = (0..length)
            .map(|_| {
                byte = byte.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (byte >> 24) as u8
            })
            .collect();
        let now = thalweg_packet::Instant::from_nanos(u64::from(length) * 1_000);
        target.receive(length % 8, &bytes, now, &mut outbox);
        outbox.clear();
    }
    target.counts().received
}

/// The entries of the four cases: every command is read and written.
///
/// A packet that they route leaves with its time to live decremented and its checksum right.
#[test]
fn the_entries_of_the_four_cases_are_written() {
    for case in 1..=4 {
        let text = |name: String| std::fs::read_to_string(folder(&name)).expect("the file");
        let program = Program::from_json(&text(format!("l2l3/l2l3_{case}.json")));
        let program = Arc::new(program.expect("a program"));
        let commands =
            thalweg_p4::commands::parse(&text(format!("l2l3/l2l3_{case}.cmds")), &program)
                .unwrap_or_else(|error| panic!("case {case}: {error}"));
        let mut target = Target::new(program, Config::default()).expect("own entries");
        let updates: Vec<_> = commands.into_iter().map(|command| command.update).collect();
        let written = target.write(&updates, thalweg_packet::Instant::ZERO);
        written.unwrap_or_else(|error| panic!("case {case}: {error}"));
        let mut packet = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
        let mut ip = [
            0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 9, 200, 1,
        ];
        let checksum = thalweg_packet::checksum::checksum(&ip);
        ip[10..12].copy_from_slice(&checksum.to_be_bytes());
        packet.extend(ip);
        packet.extend([4, 0, 0, 53, 0, 8, 0, 0]);
        let mut outbox = thalweg_p4::Outbox::new();
        target.receive(1, &packet, thalweg_packet::Instant::ZERO, &mut outbox);
        let sent: Vec<_> = outbox.sent().collect();
        assert_eq!(sent.len(), 1, "case {case}");
        let (port, bytes) = (sent[0].port, sent[0].bytes);
        assert_eq!(port, 1, "case {case}");
        assert_eq!(
            bytes[..6],
            [2, 0, 0, 0, 0, 0x99],
            "case {case}: the next hop"
        );
        assert_eq!(
            bytes[6..12],
            [2, 0, 0, 0, 0, 0xaa],
            "case {case}: our address"
        );
        let translated = case >= 3;
        let source = if translated {
            [192, 0, 2, 1]
        } else {
            [10, 0, 0, 1]
        };
        assert_eq!(bytes[26..30], source, "case {case}");
        assert_eq!(bytes[22], 63, "case {case}: time to live");
        let ip = &bytes[14..34];
        assert_eq!(
            thalweg_packet::checksum::checksum(ip),
            0,
            "case {case}: checksum"
        );
    }
}

/// The behaviour cache (B-Cache) changes no result.
///
/// This covers every vector of p4c and the four cases with their entries, the chains, and the
/// large data planes without entries.
#[test]
fn behaviors_remembered_are_behaviors_walked() {
    let mut hits = 0;
    let mut programs = 0;
    for path in files("stf", ".stf") {
        let text = std::fs::read_to_string(&path).expect("the file");
        let script = Script::parse(&text).expect("a script");
        let program = Arc::new(load(&path.with_extension("json")).expect("a program"));
        let mut targets = pair(&program);
        for target in &mut targets {
            assert_eq!(run(&script, target), [], "{}", path.display());
        }
        let packets = script.statements.iter().filter_map(|(_, one)| match one {
            Statement::Packet { port, bytes } => Some((*port, bytes.clone())),
            _ => None,
        });
        hits += compare(&mut targets, packets.collect(), &name(&path));
        programs += 1;
    }
    for folder_name in ["l2l3", "chain", "large"] {
        for path in files(folder_name, ".json") {
            let program = Arc::new(load(&path).expect("a program"));
            let mut targets = pair(&program);
            if let Ok(text) = std::fs::read_to_string(path.with_extension("cmds")) {
                let commands = thalweg_p4::commands::parse(&text, &program).expect("commands");
                let updates: Vec<_> = commands.into_iter().map(|one| one.update).collect();
                for target in &mut targets {
                    let written = target.write(&updates, thalweg_packet::Instant::ZERO);
                    written.expect("entries");
                }
            }
            let packets = (0..20).map(|index| (1, routed(index))).collect();
            hits += compare(&mut targets, packets, &name(&path));
            programs += 1;
        }
    }
    assert!(
        programs > 170 && hits > 20_000,
        "{programs} programs, {hits} hits"
    );
}

/// Two targets: with a behaviour cache, and without.
fn pair(program: &Arc<Program>) -> [Target; 2] {
    let target = || Target::new(program.clone(), Config::default()).expect("own entries");
    let mut targets = [target(), target()];
    targets[0].cache_behaviors(Some(BehaviorConfig {
        entries: 64,
        threshold: 0,
        rests: false,
        ..BehaviorConfig::default()
    }));
    targets
}

/// A packet of the four cases.
fn routed(index: u8) -> Vec<u8> {
    let mut packet = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, index % 3, 8, 0];
    packet.extend([0x45, 0, 0, 28, 0, 0, 0, 0, 64, 6 + index % 2 * 11, 0, 0]);
    packet.extend([10, 0, 0, 1, 10, 9, 200 + index / 10, 1]);
    packet.extend([4, 0, 0, 53, 0, 8, 0, index]);
    packet.resize(64, 0);
    packet
}

/// Gives both the same packets, some with a changed byte; returns the number of hits.
fn compare(targets: &mut [Target; 2], packets: Vec<(u32, Vec<u8>)>, name: &str) -> u64 {
    let mut outboxes = [thalweg_p4::Outbox::new(), thalweg_p4::Outbox::new()];
    let mut number = 1_u32;
    let mut random = move || {
        number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (number >> 16) as usize
    };
    for round in 0..400_u64 {
        for (port, bytes) in &packets {
            let mut bytes = bytes.clone();
            if !bytes.is_empty() && random() % 4 == 0 {
                let place = random() % bytes.len();
                bytes[place] = random() as u8 % 4;
            }
            let now = thalweg_packet::Instant::from_nanos(10_000_000 + round * 1_000);
            for (target, outbox) in targets.iter_mut().zip(&mut outboxes) {
                outbox.clear();
                target.receive(*port, &bytes, now, outbox);
            }
            let [cached, plain] = &outboxes;
            assert!(cached.sent().eq(plain.sent()), "{name}: {bytes:02x?}");
            assert!(cached.digests().eq(plain.digests()), "{name}: {bytes:02x?}");
            assert_eq!(targets[0].counts(), targets[1].counts(), "{name}");
        }
        if packets.len() as u64 * round > 2_000 {
            break;
        }
    }
    let [cached, plain] = targets;
    assert_eq!(cells(cached), cells(plain), "{name}");
    cached.behavior_counts().expect("a cache").hits
}

/// The values of counters and registers.
fn cells(target: &mut Target) -> Vec<String> {
    use thalweg_p4::program::ids::{CounterId, RegisterId};
    let program = &target.program().clone();
    let state = target.state();
    let mut cells = Vec::new();
    for (array, shape) in program.arrays.counters.iter().enumerate() {
        for cell in 0..shape.size.min(64) {
            let counter = state.counter(CounterId(array as u32), cell);
            cells.push(format!("{counter:?}"));
        }
    }
    for (array, shape) in program.arrays.registers.iter().enumerate() {
        for cell in 0..shape.size.min(64) {
            let register = state.register(program, RegisterId(array as u32), cell);
            cells.push(format!("{register:?}"));
        }
    }
    cells
}

/// A register at an index that p4c copies from the packet into a temporary.
#[test]
fn a_register_at_a_copied_index_is_remembered() {
    let path = folder("stf/issue1097-2-bmv2.json");
    let program = Arc::new(load(&path).expect("a program"));
    let text = std::fs::read_to_string(path.with_extension("stf")).expect("the file");
    let script = Script::parse(&text).expect("a script");
    let mut target = Target::new(program, Config::default()).expect("own entries");
    target.cache_behaviors(Some(BehaviorConfig {
        threshold: 0,
        ..BehaviorConfig::default()
    }));
    for _ in 0..3 {
        assert_eq!(run(&script, &mut target), []);
    }
    let counts = target.behavior_counts().expect("a cache");
    assert_eq!(counts.unfit(Unfit::Register), 0);
    // Ingress and egress of two packets, three times: the last two rounds hit.
    assert_eq!((counts.hits, counts.installed), (8, 4), "{counts:?}");
}

/// Programs with B-Cache's table and detector behave as without.
///
/// This covers p4c's vectors, the four cases with their entries, the chains and the large data
/// planes. Some have nothing to cache.
#[test]
fn transformed_programs_do_what_they_did() {
    let (mut refused, mut hits, mut installed) = (Vec::new(), 0, 0);
    let mut paths = Vec::new();
    for name in ["stf", "l2l3", "chain", "large"] {
        paths.extend(files(name, ".json"));
    }
    for path in &paths {
        let text = std::fs::read_to_string(path).expect("the file");
        if let Err(why) = thalweg_p4::behavior::transform::transform(&text, 16) {
            refused.push(format!("{}: {why}", name(path)));
            continue;
        }
        let mut pair = pair::Pair::new(&text, 16, 0);
        let mut packets: Vec<(u32, Vec<u8>)> = (0..10).map(|index| (1, routed(index))).collect();
        if let Ok(text) = std::fs::read_to_string(path.with_extension("cmds")) {
            let read = thalweg_p4::commands::parse(&text, pair.plain.program());
            let read = read.expect("commands").into_iter();
            let updates: Vec<_> = read.map(|one| one.update).collect();
            assert!(pair.write(&updates), "{}", path.display());
        }
        if let Ok(text) = std::fs::read_to_string(path.with_extension("stf")) {
            let script = Script::parse(&text).expect("a script");
            packets.extend(script.statements.iter().filter_map(|(_, one)| match one {
                Statement::Packet { port, bytes } => Some((*port, bytes.clone())),
                _ => None,
            }));
        }
        for round in 0..6 {
            for (port, bytes) in &packets {
                match round {
                    5 => pair.trace_hit(*port, bytes),
                    _ => pair.receive(*port, bytes),
                }
                pair.read_reports(2);
            }
        }
        pair.compare();
        hits += pair.hits;
        installed += pair.keeper.counts().installed;
        assert_eq!(pair.keeper.counts().malformed, 0, "{}", path.display());
    }
    let done = paths.len() - refused.len();
    assert!(
        done > 80 && hits > 300 && installed > 300,
        "{done} {hits} {installed}: {refused:#?}"
    );
    for why in &refused {
        let known = [
            "ingress is empty",
            "begins with what no table",
            "depends on no field",
            "more than a table's key can have",
        ];
        assert!(known.iter().any(|known| why.contains(known)), "{why}");
    }
}
