//! `--capture`: writes the packets of some links as one pcap file per run.
//!
//! The links are one given link, or all links of a node. Runs are done one after the other.
//! Each has its own file, named after scheme, caches, transport and seed. The ledger is not
//! used: finished runs have left no packets.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Result;
use serde_json::json;
use thalweg_fabric::{CaptureWriter, NodeName, PortId, Simulation, Topology};

use super::files::Traffic;
use super::placing;
use super::runs::Run;
use thalweg_command::console::Console;
use thalweg_command::failure::bad_input;
use thalweg_command::output::FileOutput;
use thalweg_command::report::Table;

/// All links of a node, or the link between two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    node: NodeName,
    other: Option<NodeName>,
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Place, String> {
        let name = |text: &str| text.parse().map_err(|error| format!("{error}"));
        match text.split_once(':') {
            Some((one, other)) => Ok(Place {
                node: name(one)?,
                other: Some(name(other)?),
            }),
            None => Ok(Place {
                node: name(text)?,
                other: None,
            }),
        }
    }
}

impl Place {
    /// The ports of these links, in both directions.
    fn ports(self, topology: &Topology) -> Result<Vec<PortId>, String> {
        let find = |name| {
            let missing = || format!("the fabric has no {name}; give one that it has");
            topology.node_named(name).ok_or_else(missing)
        };
        let node = find(self.node)?;
        let other = self.other.map(find).transpose()?;
        let is_wanted = |port: &PortId| {
            let ends = [topology.owner(*port), topology.peer(*port)];
            other.is_none_or(|other| ends.contains(&other))
        };
        let ports: Vec<PortId> = topology.link_ports(node).filter(is_wanted).collect();
        match (ports.is_empty(), self.other) {
            (true, Some(other)) => Err(format!(
                "{} and {other} are not linked; give two neighbors",
                self.node
            )),
            _ => Ok(ports),
        }
    }
}

/// Does all runs, and writes a file for each into `folder`, which is created.
///
/// # Errors
/// If a run cannot begin, a fabric has no such link, or a file cannot be written.
pub(super) fn capture(
    places: &[Place],
    folder: &Path,
    runs: &[&Run],
    traffic: &Traffic,
    console: &Console,
) -> Result<()> {
    let mut simulations = Vec::new();
    for run in runs {
        let topology = Topology::new(&run.config.shape).map_err(bad_input)?;
        let mut ports = Vec::new();
        for place in places {
            let found = place.ports(&topology);
            ports.extend(found.map_err(|what| bad_input(format!("--capture: {what}")))?);
        }
        simulations.push((run, ports));
    }
    std::fs::create_dir_all(folder).map_err(|error| cannot(folder, &error))?;
    let mut table = Table::new("Captured")
        .with_words("file")
        .with_numbers("packets")
        .with_numbers("not kept");
    let mut files = Vec::new();
    for (number, (run, ports)) in simulations.into_iter().enumerate() {
        let path = folder.join(file_name(number, run));
        let (packets, missed) = write_run(run, &ports, traffic, &path)?;
        let name = path.display().to_string();
        table.push(vec![name.clone(), packets.to_string(), missed.to_string()]);
        files.push(json!({
            "file": name,
            "scheme": run.kind.name(),
            "cache_percent": run.percent(),
            "cache_entries": run.entries,
            "seed": run.config.seed,
            "packets": packets,
            "not_kept": missed,
        }));
    }
    console.headline(table.caption())?;
    console.print(&format!("{}\n", table.to_text()))?;
    console.print_json(&json!({ "captures": files }))
}

fn file_name(number: usize, run: &Run) -> String {
    let size = match (run.percent(), run.entries) {
        (Some(percent), _) => format!("-{percent}percent"),
        (None, Some(entries)) => format!("-{entries}entries"),
        (None, None) => String::new(),
    };
    let (scheme, seed) = (run.kind.name(), run.config.seed);
    format!("{number:03}-{scheme}{size}-seed{seed}.pcap")
}

/// Writes one run; returns the numbers of packets written and lost for lack of room.
fn write_run(run: &Run, ports: &[PortId], traffic: &Traffic, path: &Path) -> Result<(u64, u64)> {
    let config = placing::placed(run, traffic)?;
    let simulation = Simulation::new(&config, &traffic.trace);
    let mut simulation = simulation.map_err(bad_input)?;
    ports.iter().for_each(|&port| simulation.watch(port));
    let output = FileOutput::create(path).map_err(|error| cannot(path, &error))?;
    let writer = CaptureWriter::new(output);
    let mut writer = writer.map_err(|error| cannot(path, &error))?;
    // Writing between events keeps the waiting packets few.
    while simulation.step() {
        while let Some(captured) = simulation.poll_captured() {
            let written = writer.write(&captured);
            written.map_err(|error| cannot(path, &error))?;
        }
    }
    let packets = writer.packets();
    let finished = writer.finish().and_then(FileOutput::finish);
    finished.map_err(|error| cannot(path, &error))?;
    Ok((packets, simulation.captures_missed()))
}

fn cannot(path: &Path, error: &std::io::Error) -> anyhow::Error {
    let path = path.display();
    bad_input(format!(
        "{path} cannot be written: {error}; choose another with --capture-folder"
    ))
}

/// The default folder: beside the page, named after the plan.
pub(super) fn folder_of(stem: &str) -> PathBuf {
    PathBuf::from(format!("{stem}.captures"))
}

#[cfg(test)]
mod tests {
    use thalweg_fabric::FatTree;

    use super::*;

    #[test]
    fn a_place_is_a_link_or_all_links_of_a_node() {
        let topology = Topology::new(&FatTree::ft8_10k(2)).expect("a fabric");
        let count = |text: &str| {
            let place: Place = text.parse().expect("a place");
            place.ports(&topology).map(|ports| ports.len())
        };
        assert_eq!(count("server-17"), Ok(2));
        assert_eq!(count("ToR 0"), Ok(2 * (4 + 4 + 2)));
        assert_eq!(count("core 15"), Ok(2 * 8));
        assert_eq!(count("tor-0:spine-3"), Ok(2));
        assert_eq!(count("spine-3:tor-0"), Ok(2));
        assert!(count("tor-0:spine-4").is_err_and(|what| what.contains("not linked")));
        assert!(count("tor-32").is_err_and(|what| what.contains("no ToR 32")));
        for text in ["", "tor", "tor-0:", "tor-0:spine-1:core-0", ":"] {
            assert!(text.parse::<Place>().is_err(), "{text}");
        }
    }
}
