//! Fuzz targets: one function for each parser of outside bytes or text.
//!
//! A target accepts any bytes, and panics if the parser breaks a promise. Two harnesses call
//! the same functions. `src/bin/replay.rs` runs on a stable compiler and in continuous
//! integration. libFuzzer (`fuzz_targets/`) is guided by coverage and needs a nightly
//! compiler.
//!
//! A new target is a file in `targets/`, a line in [`TARGETS`], a folder in `corpus/`, and a
//! file and a `[[bin]]` for libFuzzer.

pub mod mutation;
pub mod targets;

/// A named function that must survive any input.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of the target, and of its folder in `corpus/`.
    pub name: &'static str,
    /// Runs one input.
    ///
    /// Panics if a promise is broken.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: [Target; 20] = [
    Target {
        name: "capture",
        run: targets::capture::run,
    },
    Target {
        name: "changes",
        run: targets::changes::run,
    },
    Target {
        name: "classbench",
        run: targets::classbench::run,
    },
    Target {
        name: "config",
        run: targets::config::run,
    },
    Target {
        name: "conntrack",
        run: targets::conntrack::run,
    },
    Target {
        name: "forward",
        run: targets::forward::run,
    },
    Target {
        name: "frame",
        run: targets::frame::run,
    },
    Target {
        name: "openflow",
        run: targets::openflow::run,
    },
    Target {
        name: "openflow_session",
        run: targets::openflow_session::run,
    },
    Target {
        name: "ovsdb",
        run: targets::ovsdb::run,
    },
    Target {
        name: "p4",
        run: targets::p4::run,
    },
    Target {
        name: "p4runtime",
        run: targets::p4runtime::run,
    },
    Target {
        name: "plan",
        run: targets::plan::run,
    },
    Target {
        name: "rewrite",
        run: targets::rewrite::run,
    },
    Target {
        name: "rules",
        run: targets::rules::run,
    },
    Target {
        name: "tunnel",
        run: targets::tunnel::run,
    },
    Target {
        name: "unixctl",
        run: targets::unixctl::run,
    },
    Target {
        name: "v2p_map",
        run: targets::v2p_map::run,
    },
    Target {
        name: "v2p_wire",
        run: targets::v2p_wire::run,
    },
    Target {
        name: "wire",
        run: targets::wire::run,
    },
];
