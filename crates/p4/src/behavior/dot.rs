//! Draws the statement control-flow graph in Graphviz's language, for `dot -Tsvg`.

use std::fmt::Write as _;

use super::{Analysis, VertexKind};

/// Objects named in a vertex; the rest is counted.
const SHOWN: usize = 6;

pub(super) fn draw(analysis: &Analysis) -> String {
    let mut text = String::from(
        "digraph scfg {\n  rankdir=TB;\n  node [fontname=\"sans-serif\", fontsize=10];\n",
    );
    for (index, vertex) in analysis.graph.vertices.iter().enumerate() {
        let (shape, fill) = match vertex.kind {
            VertexKind::Condition => ("diamond", "white"),
            VertexKind::Match => ("box", "lightsteelblue"),
            VertexKind::Action => ("ellipse", "honeydew"),
            VertexKind::Parser | VertexKind::Replication => ("box", "lightgray"),
            VertexKind::Termination => ("doublecircle", "white"),
        };
        let effects = &vertex.effects;
        let mut label = escaped(&vertex.name);
        let read: Vec<_> = effects.matched.union(&effects.operands).copied().collect();
        line(analysis, &mut label, "reads", &read);
        if vertex.kind == VertexKind::Action {
            let ids: Vec<_> = effects.may_write.iter().copied().collect();
            line(analysis, &mut label, "writes", &ids);
        }
        for reason in &effects.stops {
            let _ = write!(label, "\\nstops: {}", escaped(reason));
        }
        let border = if effects.stops.is_empty() {
            "black"
        } else {
            "red"
        };
        let _ = writeln!(
            text,
            "  v{index} [shape={shape}, style=filled, fillcolor={fill}, color={border}, \
             label=\"{label}\"];"
        );
    }
    for (index, vertex) in analysis.graph.vertices.iter().enumerate() {
        for edge in &vertex.next {
            let _ = writeln!(text, "  v{index} -> v{} [label=\"{}\"];", edge.to, edge.way);
        }
    }
    text + "}\n"
}

fn line(analysis: &Analysis, label: &mut String, said: &str, ids: &[super::ObjectId]) {
    if ids.is_empty() {
        return;
    }
    let names: Vec<String> = ids
        .iter()
        .take(SHOWN)
        .map(|id| escaped(&analysis.objects.get(*id).name))
        .collect();
    let _ = write!(label, "\\n{said} {}", names.join(", "));
    if ids.len() > SHOWN {
        let _ = write!(label, " and {} more", ids.len() - SHOWN);
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}
