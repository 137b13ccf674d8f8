//! Runs the program to its end in a separate folder.

// Each test program uses only a part of this module.
#![allow(dead_code)]

use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

/// A folder for the files of one test.
pub(crate) struct Scene {
    folder: tempfile::TempDir,
}

impl Scene {
    pub(crate) fn new() -> Scene {
        let folder = tempfile::tempdir().expect("there is a place for files");
        Scene { folder }
    }

    /// The path of a file in the folder.
    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// Writes a file; returns its path.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        std::fs::write(&path, content).expect("the folder is ours");
        path
    }

    /// Runs the program.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        command.args(arguments).current_dir(self.folder.path());
        command.output().expect("the program starts")
    }

    /// Starts the program with its output streams piped.
    pub(crate) fn start(&self, arguments: &[&str]) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        command.args(arguments).current_dir(self.folder.path());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("the program starts")
    }

    /// The unfinished result files in the folder and below.
    pub(crate) fn parts(&self) -> Vec<String> {
        let (mut folders, mut parts) = (vec![self.folder.path().to_owned()], Vec::new());
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).expect("it is there") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    folders.push(path);
                } else if path
                    .extension()
                    .is_some_and(|extension| extension == "part")
                {
                    parts.push(path.display().to_string());
                }
            }
        }
        parts
    }

    /// Runs the program, which must succeed without warnings; returns standard output.
    pub(crate) fn says(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{output:?}");
        assert!(output.stderr.is_empty(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// Runs the program, which must succeed; returns standard error.
    pub(crate) fn warns(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).expect("text")
    }

    /// Runs the program with `--json`, which must succeed; returns its object and its
    /// warnings.
    pub(crate) fn json_and_warning(&self, arguments: &[&str]) -> (Value, String) {
        let output = self.run(&[&["--json"], arguments].concat());
        assert!(output.status.success(), "{output:?}");
        let object = serde_json::from_slice(&output.stdout).expect("one object");
        (object, String::from_utf8(output.stderr).expect("text"))
    }

    /// Runs the program with `--json`, which must succeed and print one object without
    /// warnings.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let text = self.says(&[&["--json"], arguments].concat());
        serde_json::from_str(&text).expect("one object")
    }

    /// Runs the program, which must fail with status 2. All of `expected` must be on standard
    /// error, and nothing on standard output.
    pub(crate) fn refuses(&self, arguments: &[&str], expected: &[&str]) {
        let output = self.run(arguments);
        let text = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(output.stdout.is_empty(), "{text}");
        for part in expected {
            assert!(text.contains(part), "{part:?} is not in: {text}");
        }
    }
}
