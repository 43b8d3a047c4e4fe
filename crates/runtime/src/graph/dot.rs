//! Graphs as text for Graphviz.

use std::fmt::Write;

use super::{
    Graph,
    node::{Node, Work},
};

impl Graph {
    /// Returns the nodes and edges in the language of Graphviz, for `dot -Tsvg`.
    ///
    /// ```
    /// let device = millstream::Device::simulated()?;
    /// let mut x = device.stream()?.zeros::<u8>(1000)?;
    /// let graph = device.record("two fills", |r| {
    ///     let stream = r.stream()?;
    ///     stream.fill(&mut x, 1)?;
    ///     stream.fill(x.slice_mut(..10), 2)
    /// })?;
    /// assert!(graph.to_dot().contains("0 -> 1"));
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[must_use]
    pub fn to_dot(&self) -> String {
        let mut text = format!("digraph {:?} {{\n", self.name);
        write_nodes(&mut text, "", &self.nodes);
        text.push_str("}\n");
        text
    }
}

/// Writes nodes whose numbers follow `prefix`, and the bodies of conditional nodes as clusters.
fn write_nodes(text: &mut String, prefix: &str, nodes: &[Node]) {
    for (number, node) in nodes.iter().enumerate() {
        let work = match &node.work {
            Work::Kernel(kernel) => {
                let [x, y, z] = kernel.dims.grid;
                format!("{x} × {y} × {z} blocks")
            }
            Work::Copy(copy) => format!("{} bytes", copy.width_bytes * copy.height),
            Work::Fill { pattern, count, .. } => format!("{} bytes", pattern.size() * count),
            Work::Child(_) => String::from("captured"),
            Work::Conditional(conditional) => match conditional.repeat {
                Some(repeat) => format!("at most {} iterations", repeat.iterations_max),
                None => String::from("once or never"),
            },
        };
        let place = node.location.to_string();
        let label = format!("{}\n{work}\n{place}", node.label);
        // Writing to a string does not fail.
        let _ = writeln!(text, "    {prefix}{number} [shape=box, label={label:?}];");
        for before in &node.dependencies {
            let _ = writeln!(text, "    {prefix}{before} -> {prefix}{number};");
        }
        let body = node.work.body();
        if !body.is_empty() {
            let inner = format!("{prefix}{number}.");
            let _ = writeln!(text, "    subgraph \"cluster_{inner}\" {{");
            write_nodes(text, &inner, body);
            let _ = writeln!(text, "    }}");
        }
    }
}
