//! Files in memory, and small reports.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use biopsy_cases::file::{BoxFuture, Bytes};
use biopsy_cases::{About, Answer, Cases, CasesError, Files, Key, Rows, SegmentFile, Table, write};

/// Files in memory, and what was read of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct InMemory {
    pub(crate) files: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
    pub(crate) read: Arc<Mutex<Vec<(String, u64)>>>,
}

impl Files for InMemory {
    fn read(&self, name: &str, range: Range<u64>) -> BoxFuture<'static, io::Result<Bytes>> {
        self.read.lock().unwrap().push((name.to_owned(), range.end - range.start));
        let piece = self.files.lock().unwrap().get(name).and_then(|file| {
            let place = |at| usize::try_from(at).unwrap();
            file.get(place(range.start)..place(range.end)).map(|piece| Bytes::from(piece.to_vec()))
        });
        Box::pin(async move { piece.ok_or_else(|| io::ErrorKind::NotFound.into()) })
    }
}

/// Some segments.
#[derive(Debug, Default)]
pub(crate) struct Lab {
    pub(crate) files: InMemory,
    pub(crate) segments: Vec<(Table, SegmentFile)>,
}

impl Lab {
    /// Adds reports as one segment.
    pub(crate) fn add(&mut self, reports: &[(&str, String)]) {
        let mut rows = Rows::default();
        for (case, report) in reports {
            let upload = format!("u-{case}");
            rows.add(About { case, upload: &upload, analysed_at: 1_800_000_000 }, report).unwrap();
        }
        let number = self
            .segments
            .iter()
            .map(|(_, file)| file.segment.clone())
            .collect::<std::collections::BTreeSet<_>>()
            .len();
        let segment = format!("s{number}");
        for (table, rows) in rows.finish().unwrap() {
            let name = format!("{segment}-{}", table.name());
            let key = Key::new([u8::try_from(number).unwrap(); 32]);
            let mut bytes = Vec::new();
            let written = write(table, &rows, &key, &segment, &mut bytes).unwrap();
            assert_eq!(written.bytes, bytes.len() as u64);
            self.files.files.lock().unwrap().insert(name.clone(), bytes);
            self.segments
                .push((table, SegmentFile { name, bytes: written.bytes, key, segment: segment.clone() }));
        }
    }

    pub(crate) fn stored(&self) -> Arc<dyn Files> {
        Arc::new(self.files.clone())
    }

    pub(crate) fn cases(&self) -> Cases {
        Cases::of(&self.stored(), &self.segments).unwrap()
    }

    pub(crate) fn answer(&self, sql: &str) -> Result<Answer, CasesError> {
        let cases = self.cases();
        wait_for(cases.answer(cases.question(sql)?))
    }

    /// All rows, their fields with `|` between.
    pub(crate) fn ask(&self, sql: &str) -> Vec<String> {
        let mut answer = self.answer(sql).unwrap();
        let mut rows = Vec::new();
        while let Some(batch) = wait_for(answer.next()).unwrap() {
            rows.extend(batch.texts().unwrap().into_iter().map(|row| row.join("|")));
        }
        rows
    }
}

pub(crate) fn wait_for<T>(future: impl Future<Output = T>) -> T {
    static RUNTIME: std::sync::LazyLock<tokio::runtime::Runtime> = std::sync::LazyLock::new(|| {
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap()
    });
    RUNTIME.block_on(future)
}

/// A report with a crash and a cause.
pub(crate) fn report(signature: &str, function: &str) -> String {
    format!(
        r#"{{"schema": "biopsy-report", "version": 2,
        "findings": [
          {{"id": "crash", "of": {{"kind": "dump", "index": 0}}, "severity": "critical", "impact": 1.0, "title": "shop died of SIGABRT",
            "evidence": [{{"text": "thread 7"}}, {{"text": "in", "reference": {{"kind": "function", "name": "{function}", "module": "shop"}}}}]}},
          {{"id": "memory-short", "severity": "notice", "impact": null, "title": "memory is short", "evidence": []}}],
        "recording": {{"tool": "biopsy 0.1", "target_name": "shop", "seconds": 60.5,
          "host": {{"os": "Debian 12", "kernel": "6.1", "architecture": "x86_64", "cpus": 8}}}},
        "completeness": {{"partial": false, "sampled_ns": 5000000000}},
        "processes": [{{"runtime": "native", "runtime_version": "1.2"}}],
        "functions": [{{"name": "{function}", "module": "shop", "kind": "native", "cpu_self_ns": 30, "cpu_total_ns": 40, "wait_self_ns": 1, "wait_total_ns": 2}},
                      {{"name": "main", "module": "shop", "kind": "native", "cpu_self_ns": 10, "cpu_total_ns": 50}}],
        "metrics": {{"summary": [{{"table": "host", "column": "cpu_busy", "unit": "cores", "readings": 60, "missing": 1, "mean": 1.5, "min": 0.5, "max": 4.0, "last": 2.0}}]}},
        "dumps": [{{"identity": {{"name": "shop", "executable": "/opt/shop", "writer": "biopsy"}},
          "signature": {{"text": "{signature}", "version": 3, "made_from": "stack"}},
          "modules": [{{"path": "/lib/libc.so.6", "build_id": "00"}}, {{"path": "/opt/shop", "build_id": "c0ffee"}}]}}]}}"#
    )
}
