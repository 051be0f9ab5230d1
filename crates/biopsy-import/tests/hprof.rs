//! Heap dumps of a real virtual machine, held against what it says of its heap itself.

use std::collections::BTreeMap;
use std::process::Command;

use biopsy_import::heap;
use biopsy_testkit::{TargetProcess, require_program, temp_dir};

const PROGRAM: &str = r#"
import java.util.*;
public class Shop {
    static final Map<String, Order> ORDERS = new HashMap<>();
    static class Order { final String name; final long[] items; Order next; Order(String n, int k) { name = n; items = new long[k]; } }
    public static void main(String[] a) throws Exception {
        for (int i = 0; i < 5000; i++) { ORDERS.put("order-" + i, new Order("n" + i, i % 50)); }
        System.out.println("READY " + ProcessHandle.current().pid());
        System.in.read();
    }
}
"#;

#[test]
fn objects_of_a_java_program_are_those_that_its_machine_counts() {
    // `javac`: a source is started as it is.
    if ![("javac", "-version"), ("java", "-version"), ("jcmd", "-h")]
        .iter()
        .all(|(name, asked)| require_program(name, &[asked]))
    {
        return;
    }
    let folder = temp_dir("hprof");
    let source = folder.path().join("Shop.java");
    std::fs::write(&source, PROGRAM).unwrap();
    let mut java = Command::new("java");
    java.args(["-Xmx128m", "-XX:+UseSerialGC"]).arg(&source);
    let mut target = TargetProcess::spawn(java);
    let pid = target.pid().to_string();
    let file = folder.path().join("shop.hprof");
    let ask = |arguments: &[&str]| {
        let output = Command::new("jcmd").arg(&pid).args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    // Both collect garbage first.
    ask(&["GC.heap_dump", file.to_str().unwrap()]);
    let histogram = ask(&["GC.class_histogram"]);
    target.stop();
    let heap = heap::open(&file).unwrap().expect("a heap");
    assert!(heap.facts.whole, "{:?}", heap.facts);
    let mut ours: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for row in heap.graph.by_type() {
        let of = heap.graph.type_of(row.of).unwrap();
        let live = row.live.unwrap_or_default();
        let sum = ours.entry(of.name.clone()).or_default();
        *sum = (sum.0 + live.objects, sum.1 + live.bytes);
    }
    for (theirs, name) in
        [("Shop$Order", "Shop$Order"), ("[J", "long[]"), ("java.util.HashMap$Node", "java.util.HashMap$Node")]
    {
        // `  12:   5000   120000  Shop$Order (app)`
        let row = histogram.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let row = row.into_iter().find(|words| words.get(3) == Some(&theirs)).expect("it is counted");
        let expected: (u64, u64) = (row[1].parse().unwrap(), row[2].parse().unwrap());
        let found = ours.get(name).copied().unwrap_or_default();
        // The two looks are not of one moment: the machine itself makes some objects meanwhile.
        let near = |a: u64, b: u64| a.abs_diff(b) * 50 <= b;
        assert!(
            near(found.0, expected.0) && near(found.1, expected.1),
            "{name}: {found:?}, not {expected:?}"
        );
    }
    assert_eq!(ours["Shop$Order"].0, 5000);
}
