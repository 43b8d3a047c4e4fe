//! Labels in reports, reports as JSON, and the checker's switch.

use crate::races::prelude::*;

fn two_fills(sim: &SimHarness) {
    let memory = {
        let _label = Label::new("the array");
        sim.mem_alloc(64).unwrap()
    };
    for name in ["first", "second"] {
        let _label = Label::new(name);
        sim.fill(memory, 1, 64, sim.stream());
    }
}

#[test]
fn findings_name_the_labels_and_lines_of_both_sides() {
    expect("labels", two_fills);
}

#[test]
fn an_inner_label_gives_way_to_the_outer_one() {
    let sim = SimHarness::new(SimConfig::new());
    let memory = sim.mem_alloc(64).unwrap();
    {
        let _outer = Label::new("outer");
        drop(Label::new("inner"));
        sim.fill(memory, 1, 64, sim.stream());
    }
    sim.fill(memory, 1, 64, sim.stream());
    sim.context_synchronize().unwrap();
    let [race] = &sim.gpu.findings()[..] else {
        panic!("expected one race");
    };
    assert!(
        race.earlier
            .as_ref()
            .unwrap()
            .site
            .as_ref()
            .unwrap()
            .starts_with("`outer` at ")
    );
    assert_eq!(race.later.site, None);
}

#[test]
fn a_finding_is_a_json_object_and_a_report() {
    let sim = SimHarness::new(SimConfig::new());
    let _label = Label::new("a \"quoted\"\tlabel \\");
    let memory = sim.mem_alloc(64).unwrap();
    for _ in 0..2 {
        sim.fill(memory, 1, 64, sim.stream());
    }
    sim.context_synchronize().unwrap();
    let finding = &sim.gpu.findings()[0];
    let value: serde_json::Value = serde_json::from_str(&finding.to_json()).unwrap();
    assert_eq!(value["kind"], "Race");
    assert_eq!(value["memory"]["ranges"][0][1], 64);
    assert_eq!(value["later"]["operation"], 2);
    assert_eq!(value["earlier"]["stream"], "stream 1");
    let site = value["later"]["site"].as_str().unwrap();
    assert!(site.starts_with("`a \"quoted\"\tlabel \\` at "), "{site}");
    let report = &sim.gpu.reports()[0];
    assert_eq!(
        (report.kind, &report.text),
        (finding.kind, &finding.to_string())
    );
    assert_eq!(report.call, "cuMemsetD8Async");
}

#[test]
fn without_the_check_nothing_is_found() {
    let sim = SimHarness::new(SimConfig::parse("sim:race=off").unwrap());
    two_fills(&sim);
    sim.context_synchronize().unwrap();
    sim.assert_clean();
    assert!(sim.gpu.findings().is_empty());
}
