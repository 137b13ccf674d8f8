//! The suite as Debian ships it: unpacked, told of our program, read and run.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use super::in_namespace;
use crate::ci::succeeds;
use crate::packages::OPEN_VSWITCH_TESTS;

/// Texts of tests that start the daemon.
const STARTS: [&str; 3] = ["ovs-vswitchd", "ovs_vswitchd", "start_daemon"];
/// What the tests are told of the machine; the others are what a build would find.
const SETTINGS: [(&str, &str); 6] = [
    ("HAVE_OPENSSL", "yes"),
    ("OPENSSL_SUPPORTS_SNI", "yes"),
    ("HAVE_UNBOUND", "yes"),
    ("EGREP", "grep -E"),
    ("PYTHON3", "python3"),
    ("CFLAGS", "-O2"),
];
/// Where Debian has the parts of the Python library that a build writes.
const PYTHON: [&str; 2] = [
    "/usr/lib/python3/dist-packages/ovs",
    "/usr/share/openvswitch/python/ovs",
];

/// A test.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Group {
    pub(super) number: u32,
    pub(super) file: String,
    pub(super) title: String,
    pub(super) starts_daemon: bool,
    /// What it does, for the reasons on the page.
    pub(super) body: String,
}

impl Group {
    /// The test in a line.
    pub(super) fn key(&self) -> String {
        format!("{} {} {}", self.number, self.file, self.title)
    }
}

/// What became of a test.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    Passed,
    Skipped,
    /// Where it failed.
    Failed(String),
}

/// The unpacked suite.
#[derive(Debug)]
pub(super) struct Suite {
    /// The folder that it runs in.
    folder: PathBuf,
    text: String,
}

impl Suite {
    /// Unpacks the suite below `work`, and puts `program` in ovs-vswitchd's place.
    pub(super) fn prepare(work: &Path, program: &Path) -> anyhow::Result<Suite> {
        fs::create_dir_all(work)?;
        let source = work.join("openvswitch");
        let tests = source.join("tests");
        if !tests.join("testsuite").exists() {
            let mut command = Command::new("tar");
            command
                .arg("xzf")
                .arg(OPEN_VSWITCH_TESTS)
                .arg("-C")
                .arg(work);
            if !succeeds(command)? {
                bail!("{OPEN_VSWITCH_TESTS} cannot be unpacked");
            }
        }
        for name in ["dirs.py", "version.py"] {
            for place in PYTHON {
                let from = Path::new(place).join(name);
                if from.exists() {
                    fs::copy(&from, source.join("python/ovs").join(name))?;
                }
            }
        }
        let (run, programs) = (work.join("run"), work.join("programs"));
        let folder = run.join("tests");
        fs::create_dir_all(&folder)?;
        fs::create_dir_all(&programs)?;
        write_program(&programs.join("ovs-vswitchd"), program)?;
        let given = fs::read_to_string(tests.join("atlocal.in")).context("atlocal.in")?;
        fs::write(folder.join("atlocal"), local_settings(&given))?;
        fs::write(
            folder.join("atconfig"),
            configuration(&run, &source, &programs),
        )?;
        fs::copy(tests.join("testsuite"), folder.join("testsuite"))?;
        let text = fs::read(folder.join("testsuite"))?;
        Ok(Suite {
            folder,
            text: String::from_utf8_lossy(&text).into_owned(),
        })
    }

    /// All tests, in their order.
    pub(super) fn groups(&self) -> Vec<Group> {
        groups(&self.text)
    }

    /// Runs tests, `jobs` at a time.
    pub(super) fn run(
        &self,
        groups: &[&Group],
        jobs: usize,
    ) -> anyhow::Result<BTreeMap<u32, Outcome>> {
        if groups.is_empty() {
            return Ok(BTreeMap::new());
        }
        let numbers: Vec<String> = groups
            .iter()
            .map(|group| group.number.to_string())
            .collect();
        let folder = self.folder.display();
        let script = format!(
            "mkdir -p /run/netns; cd {folder}; exec bash ./testsuite -C {folder} --jobs={jobs} {}",
            numbers.join(" ")
        );
        let mut command = in_namespace(&script);
        command.stdin(Stdio::null()).stderr(Stdio::null());
        let output = command.output().context("unshare")?;
        Ok(outcomes(&String::from_utf8_lossy(&output.stdout)))
    }
}

/// Writes a program that runs another under its own name, since files are named by it.
fn write_program(path: &Path, program: &Path) -> anyhow::Result<()> {
    let script = format!(
        "#!/bin/bash\nexec -a ovs-vswitchd \"{}\" \"$@\"\n",
        program.display()
    );
    fs::write(path, script)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// The settings of the tests, as a build would have written them.
fn local_settings(given: &str) -> String {
    let mut text = given.to_owned();
    for (name, value) in SETTINGS {
        text = text.replace(&format!("@{name}@"), value);
    }
    // The quotes of this condition are wrong where the variable is empty.
    if let Some(start) = text.find("if test $HAVE_TC=\"yes\"; then\n")
        && let Some(length) = text[start..].find("\nfi\n")
    {
        text.replace_range(start..start + length + 4, "");
    }
    text
}

fn configuration(run: &Path, source: &Path, programs: &Path) -> String {
    let (run, source) = (run.display(), source.display());
    let programs = programs.display();
    format!(
        "at_testdir='tests'\n\
         abs_builddir='{run}/tests'\n\
         at_srcdir='{source}/tests'\n\
         abs_srcdir='{source}/tests'\n\
         at_top_srcdir='{source}'\n\
         abs_top_srcdir='{source}'\n\
         ovs_srcdir='{source}'\n\
         ovs_builddir='{source}'\n\
         at_top_build_prefix='../'\n\
         abs_top_builddir='{run}'\n\
         at_top_builddir=$at_top_build_prefix\n\
         AUTOTEST_PATH='{programs}:{source}/tests'\n\
         SHELL=${{CONFIG_SHELL-'/bin/bash'}}\n"
    )
}

/// Reads the tests of an expanded suite.
fn groups(text: &str) -> Vec<Group> {
    let mut groups = Vec::new();
    for part in text.split("\n#AT_START_").skip(1) {
        let Some((number, rest)) = part.split_once('\n') else {
            continue;
        };
        let Ok(number) = number.parse() else {
            continue;
        };
        let end = rest.find(&format!("\n#AT_STOP_{number}"));
        let body = &rest[..end.unwrap_or(rest.len())];
        let mut quoted = body.split('\'');
        let place = quoted.nth(1).unwrap_or_default();
        let title = body.split('"').nth(1).unwrap_or_default();
        groups.push(Group {
            number,
            file: place.split(':').next().unwrap_or_default().to_owned(),
            title: title.trim().to_owned(),
            starts_daemon: STARTS.iter().any(|start| body.contains(start)),
            body: body.to_owned(),
        });
    }
    groups
}

/// Reads what the suite prints: `  12: title   ok`.
fn outcomes(text: &str) -> BTreeMap<u32, Outcome> {
    let mut outcomes = BTreeMap::new();
    for line in text.lines() {
        let Some((number, rest)) = line.trim_start().split_once(": ") else {
            continue;
        };
        let Ok(number) = number.parse() else {
            continue;
        };
        let rest = rest.trim_end();
        let outcome = if rest.ends_with(" ok") {
            Outcome::Passed
        } else if let Some((_, place)) = rest.rsplit_once("FAILED (") {
            Outcome::Failed(place.trim_end_matches(')').to_owned())
        } else if rest.contains(" skipped (") {
            Outcome::Skipped
        } else {
            continue;
        };
        outcomes.insert(number, outcome);
    }
    outcomes
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUITE: &str = "\n#AT_START_7\n\
        at_fn_group_banner 7 'ofproto.at:12' \\\n  \
        \"ofproto - echo request\" \"               \" 54\n\
        at_xfail=no\novs-vswitchd --detach\n#AT_STOP_7\n\
        #AT_START_8\nat_fn_group_banner 8 'library.at:3' \\\n  \"a library\" \"\" 1\n#AT_STOP_8\n";

    #[test]
    fn tests_and_outcomes_are_read() {
        let groups = groups(SUITE);
        let keys: Vec<String> = groups.iter().map(Group::key).collect();
        assert_eq!(
            keys,
            [
                "7 ofproto.at ofproto - echo request",
                "8 library.at a library"
            ]
        );
        let starts: Vec<bool> = groups.iter().map(|group| group.starts_daemon).collect();
        assert_eq!(starts, [true, false]);
        let outcomes = outcomes(
            "  7: ofproto - echo request                          ok\n\
             8: a library   FAILED (library.at:4)\n\
             9: another  skipped (x.at:1)\n\
             ERROR: 1 test failed\n",
        );
        let expected = [
            (7, Outcome::Passed),
            (8, Outcome::Failed("library.at:4".to_owned())),
            (9, Outcome::Skipped),
        ];
        assert_eq!(outcomes, BTreeMap::from(expected));
    }

    #[test]
    fn settings_are_filled_in_and_a_broken_condition_goes() {
        let given = "A='@EGREP@'\nif test $HAVE_TC=\"yes\"; then\n  B=c\nfi\nC=d\n";
        assert_eq!(local_settings(given), "A='grep -E'\nC=d\n");
    }
}
