//! Runs the commands that `docs/operating.md` shows for the daemon, and compares what they print.
//!
//! Needs root: the shell gets namespaces of its own for the network, mounts and processes, so
//! that everything is where the page says. With `UPDATE_EXPECT=1` the page is renewed.

use std::path::Path;
use std::process::{Command, Stdio};

/// The page's part with the commands begins here.
const HEADING: &str = "## The daemon, day by day\n";
const BLOCK: &str = "```console\n";
const BLOCK_END: &str = "```\n";
/// Shown before each command.
const PROMPT: &str = "$ ";

/// What the machine of the page has.
const MACHINE: &str = r#"
set -e
for folder in /run /tmp /var/log; do mount -t tmpfs none $folder; done
mount -t sysfs none /sys
mkdir -p /run/bin /run/openvswitch /var/log/openvswitch
ln -s "$PROGRAM" /run/bin/thalweg
PATH=/run/bin:$PATH
for setting in all default; do echo 1 > /proc/sys/net/ipv6/conf/$setting/disable_ipv6; done
ip link set lo up
for number in 1 2 3; do
    ip netns add h$number
    ip netns exec h$number sh -c 'echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6'
    ip link add eth$number address 50:54:00:00:01:0$number type veth \
        peer name e0 address 50:54:00:00:00:0$number netns h$number
    ip -n h$number address add 10.0.0.$number/24 dev e0
    ip -n h$number link set e0 up
    ip link set eth$number up
done
database=/run/openvswitch/conf.db
ovsdb-tool create $database /usr/share/openvswitch/vswitch.ovsschema
ovsdb-server --detach --pidfile --remote=punix:/run/openvswitch/db.sock \
    -vconsole:off $database
ovs-vsctl --no-wait init
set +e
"#;

/// The page's parts: text as it is, and blocks of commands.
fn parts(page: &str) -> Vec<(bool, &str)> {
    let mut parts = Vec::new();
    let (mut rest, mut is_block) = (page, false);
    while let Some((part, behind)) = rest.split_once(if is_block { BLOCK_END } else { BLOCK }) {
        parts.push((is_block, part));
        (rest, is_block) = (behind, !is_block);
    }
    assert!(!is_block, "the last block ends");
    parts.push((false, rest));
    parts
}

fn commands(block: &str) -> impl Iterator<Item = &str> {
    block.lines().filter_map(|line| line.strip_prefix(PROMPT))
}

/// A shell's program that prints each command and what it prints, each block in its own turn.
fn program(blocks: &[&str]) -> String {
    let mut program = MACHINE.to_owned();
    for block in blocks {
        program += "printf '\\036'\n";
        for command in commands(block) {
            let quoted = command.replace('\'', r"'\''");
            program += &format!("echo '{PROMPT}{quoted}'\n{{ {command}; }} 2>&1\n");
        }
    }
    program
}

/// Runs a shell's program on a machine of its own; returns what it prints.
fn run(program: &str) -> String {
    let mut shell = Command::new("timeout");
    shell.args([
        "--kill-after=5",
        "120",
        "unshare",
        "--net",
        "--mount",
        "--pid",
        "--fork",
    ]);
    shell.args(["--kill-child", "--mount-proc", "bash", "-c", program]);
    shell.env("PROGRAM", env!("CARGO_BIN_EXE_thalweg"));
    let output = shell
        .stdin(Stdio::null())
        .output()
        .expect("unshare is installed");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", output.status);
    String::from_utf8(output.stdout).expect("text")
}

/// Replaces what differs from run to run: numbers behind these words, the ages of stations, and
/// UUIDs.
fn without_times(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let mut line = line.to_owned();
        for word in [
            "duration=",
            "idle_age=",
            "used:",
            "time=",
            "time ",
            "mdev = ",
            "hit:",
            "missed:",
        ] {
            if let Some((before, behind)) = line.split_once(word) {
                let is_number = |c: char| c.is_ascii_digit() || "./".contains(c);
                let behind = behind.trim_start_matches(is_number);
                line = format!("{before}{word}N{behind}");
            }
        }
        let is_station = line.matches(':').count() == 5 && line.starts_with([' ', 'L']);
        let is_age = |word: &str| word.parse::<u32>().is_ok();
        match line.rsplit_once(' ') {
            Some((before, age)) if is_station && is_age(age) => format!("{before} N"),
            _ if is_uuid(line.trim()) => "UUID".to_owned(),
            _ => line,
        }
    });
    lines.map(|line| line + "\n").collect()
}

fn is_uuid(text: &str) -> bool {
    let is_it = |(at, c): (usize, char)| match at {
        8 | 13 | 18 | 23 => c == '-',
        _ => c.is_ascii_hexdigit(),
    };
    text.len() == 36 && text.chars().enumerate().all(is_it)
}

#[test]
fn the_pages_commands_print_what_it_shows() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operating.md");
    let page = std::fs::read_to_string(&path).expect("the page");
    let (before, part) = page.split_once(HEADING).expect("the page has the part");
    let parts = parts(part);
    let blocks: Vec<&str> = parts
        .iter()
        .filter(|part| part.0)
        .map(|part| part.1)
        .collect();
    let printed = run(&program(&blocks));
    let printed: Vec<&str> = printed.split('\u{1e}').skip(1).collect();
    assert_eq!(printed.len(), blocks.len());
    if std::env::var_os("UPDATE_EXPECT").is_none() {
        for (promised, printed) in blocks.iter().zip(&printed) {
            assert_eq!(
                without_times(promised),
                without_times(printed),
                "UPDATE_EXPECT=1 renews"
            );
        }
        return;
    }
    let mut printed = printed.into_iter();
    let renewed: String = parts
        .iter()
        .map(|(is_block, text)| match is_block {
            false => (*text).to_owned(),
            true => {
                let printed = printed.next().expect("as many as blocks");
                let is_same = without_times(text) == without_times(printed);
                let text = if is_same { text } else { printed };
                format!("{BLOCK}{text}{BLOCK_END}")
            }
        })
        .collect();
    std::fs::write(&path, format!("{before}{HEADING}{renewed}")).expect("the page");
}
