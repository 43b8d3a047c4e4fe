//! Labels, JSON, and the switch.

use millstream_driver::FillPattern;
use millstream_sim::{SimConfig, race::Label};

use crate::{expect::expect, rig::Rig};

fn two_fills(rig: &Rig) {
    let memory = {
        let _label = Label::new("the array");
        rig.mem_alloc(64).unwrap()
    };
    for name in ["first", "second"] {
        let _label = Label::new(name);
        rig.memset_async(memory, FillPattern::U8(1), 64, rig.stream())
            .unwrap();
    }
}

#[test]
fn findings_name_the_labels_and_lines_of_both_sides() {
    expect("labels", two_fills);
}

#[test]
fn an_inner_label_gives_way_to_the_outer_one() {
    let rig = Rig::new(SimConfig::new());
    let memory = rig.mem_alloc(64).unwrap();
    {
        let _outer = Label::new("outer");
        drop(Label::new("inner"));
        rig.memset_async(memory, FillPattern::U8(1), 64, rig.stream())
            .unwrap();
    }
    rig.memset_async(memory, FillPattern::U8(1), 64, rig.stream())
        .unwrap();
    rig.context_synchronize().unwrap();
    let [race] = &rig.gpu.findings()[..] else {
        panic!("one race");
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
    let rig = Rig::new(SimConfig::new());
    let _label = Label::new("a \"quoted\"\tlabel \\");
    let memory = rig.mem_alloc(64).unwrap();
    for _ in 0..2 {
        rig.memset_async(memory, FillPattern::U8(1), 64, rig.stream())
            .unwrap();
    }
    rig.context_synchronize().unwrap();
    let finding = &rig.gpu.findings()[0];
    let value: serde_json::Value = serde_json::from_str(&finding.to_json()).unwrap();
    assert_eq!(value["kind"], "Race");
    assert_eq!(value["memory"]["ranges"][0][1], 64);
    assert_eq!(value["later"]["operation"], 2);
    assert_eq!(value["earlier"]["stream"], "stream 1");
    let site = value["later"]["site"].as_str().unwrap();
    assert!(site.starts_with("`a \"quoted\"\tlabel \\` at "), "{site}");
    let report = &rig.gpu.reports()[0];
    assert_eq!(
        (report.kind, &report.text),
        (finding.kind, &finding.to_string())
    );
    assert_eq!(report.call, "cuMemsetD8Async");
}

#[test]
fn without_the_check_nothing_is_found() {
    let rig = Rig::new(SimConfig::from_spec("sim:race=off").unwrap());
    two_fills(&rig);
    rig.context_synchronize().unwrap();
    rig.assert_clean();
    assert!(rig.gpu.findings().is_empty());
}
