//! `[[failure]]`: elements that fail during a run. Whether a fabric has them is checked later.

use serde::{Deserialize, Deserializer};
use thalweg_fabric::{Element, Failure, NodeClass, NodeName, Time, Topology};
use toml::Spanned;

use super::MICROS;
use crate::value::{Number, list};
use crate::{Result, Source};

/// A failing element, by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlannedElement {
    /// The link between two nodes.
    Link(NodeName, NodeName),
    /// A switch.
    Switch(NodeName),
}

/// An element of a plan that fails for a while.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlannedFailure {
    /// The element.
    pub element: PlannedElement,
    /// Start of the failure.
    pub at: Time,
    /// End of the failure; `None` means never.
    pub until: Option<Time>,
    /// Its line in the plan, from 1.
    pub line: usize,
    /// Its column, from 1.
    pub column: usize,
}

impl PlannedFailure {
    /// Resolves the failure in a fabric.
    ///
    /// # Errors
    /// If the fabric lacks the node or link; says which, and what to give instead.
    pub fn in_fabric(&self, topology: &Topology) -> std::result::Result<Failure, String> {
        let find = |name| {
            let missing = || format!("the fabric has no {name}; give one that it has");
            topology.node_named(name).ok_or_else(missing)
        };
        let element = match self.element {
            PlannedElement::Switch(name) => Element::Switch(find(name)?),
            PlannedElement::Link(one, other) => {
                let nodes = (find(one)?, find(other)?);
                if !topology
                    .ports(nodes.0)
                    .any(|port| topology.peer(port) == nodes.1)
                {
                    return Err(format!(
                        "{one} and {other} are not linked; give two neighbors, such as a spine and \
                         a ToR of its pod"
                    ));
                }
                Element::Link(nodes.0, nodes.1)
            }
        };
        let (at, until) = (self.at, self.until);
        Ok(Failure { element, at, until })
    }
}

/// All sections `[[failure]]`.
#[derive(Debug, Default)]
pub(super) struct Sections(Vec<Section>);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    link: Option<Spanned<Vec<Spanned<String>>>>,
    switch: Option<Spanned<String>>,
    #[serde(deserialize_with = "crate::value::some_micros")]
    at_us: Spanned<Number>,
    #[serde(default, deserialize_with = "crate::value::micros")]
    until_us: Option<Spanned<Number>>,
}

impl<'de> Deserialize<'de> for Sections {
    fn deserialize<D: Deserializer<'de>>(
        deserializer: D,
    ) -> std::result::Result<Sections, D::Error> {
        let expected = "a list: write [[failure]], with two brackets, for each failure";
        list(deserializer, expected).map(Sections)
    }
}

impl Source<'_> {
    pub(super) fn failures(&self, sections: &Sections) -> Result<Vec<PlannedFailure>> {
        sections.0.iter().map(|one| self.failure(one)).collect()
    }

    fn failure(&self, section: &Section) -> Result<PlannedFailure> {
        let (element, span) = match (&section.link, &section.switch) {
            (Some(link), None) => {
                let [one, other] = &link.get_ref()[..] else {
                    let what =
                        "a link is between two nodes; give both, such as [\"spine 0\", \"tor 1\"]";
                    return Err(self.error(&link.span(), what));
                };
                let element = PlannedElement::Link(self.node(one)?, self.node(other)?);
                (element, link.span())
            }
            (None, Some(switch)) => {
                let name = self.node(switch)?;
                if matches!(name.class, NodeClass::Server | NodeClass::Gateway) {
                    let what =
                        format!("{name} is no switch; give a core, spine or ToR, or its link");
                    return Err(self.error(&switch.span(), what));
                }
                (PlannedElement::Switch(name), switch.span())
            }
            _ => {
                let what = "what fails? give either link or switch";
                return Err(self.error(&section.at_us.span(), what));
            }
        };
        let at = self.number("at_us", &section.at_us, MICROS)?;
        let until = section.until_us.as_ref().map(|said| {
            let until = self.number("until_us", said, MICROS)?;
            if until <= at {
                let what = format!("it ends at {until} and begins at {at}; give a later until_us");
                return Err(self.error(&said.span(), what));
            }
            Ok(Time::from_micros(until))
        });
        let (line, column) = self.place(&span);
        Ok(PlannedFailure {
            element,
            at: Time::from_micros(at),
            until: until.transpose()?,
            line,
            column,
        })
    }

    pub(super) fn node(&self, said: &Spanned<String>) -> Result<NodeName> {
        let name = said.get_ref().parse();
        name.map_err(|error: thalweg_fabric::NodeNameError| self.error(&said.span(), error))
    }
}
