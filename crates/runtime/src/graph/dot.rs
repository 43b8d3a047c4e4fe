//! Graphs as text for Graphviz.

use std::fmt::Write;

use super::{Graph, node::Work};

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
        for (number, node) in self.nodes.iter().enumerate() {
            let work = match &node.work {
                Work::Kernel(kernel) => {
                    let [x, y, z] = kernel.dims.grid;
                    format!("{x} × {y} × {z} blocks")
                }
                Work::Copy(copy) => format!("{} bytes", copy.width_bytes * copy.height),
                Work::Fill { pattern, count, .. } => format!("{} bytes", pattern.size() * count),
                Work::Child(_) => String::from("captured"),
            };
            let place = node.location.to_string();
            let label = format!("{}\n{work}\n{place}", node.label);
            // Writing to a string does not fail.
            let _ = writeln!(text, "    {number} [shape=box, label={label:?}];");
            for before in &node.dependencies {
                let _ = writeln!(text, "    {before} -> {number};");
            }
        }
        text.push_str("}\n");
        text
    }
}
