//! From a report (`docs/formats/report-schema.md`) to rows. A report holds derived data that was gone over for secrets; of that, this takes what is
//! comparable between cases, and no evidence, log lines or command lines.

use arrow::array::RecordBatch;
use serde::Deserialize;
use serde::de::Error as _;

use crate::builder::{Builder, Field};
use crate::error::CasesError;
use crate::lenient::{First, Maybe};
use crate::merge::sorted;
use crate::schema::Table;

/// Most findings of a report.
pub const FINDINGS: usize = 200;
/// Most dumps, each with the signature of a crash; and most causes.
pub const SIGNATURES: usize = 64;
/// Most metrics.
pub const METRICS: usize = 1000;
/// Top functions: so many, in the report's order.
pub const FUNCTIONS: usize = 100;
/// Most pieces of evidence and modules that are looked through for one.
const LOOKED_THROUGH: usize = 1000;

/// What a report belongs to.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// The case.
    pub case: &'a str,
    /// What was sent.
    pub upload: &'a str,
    /// When it was analysed, in seconds since 1970.
    pub analysed_at: i64,
}

/// Rows of all tables, of one report or more.
#[derive(Debug)]
pub struct Rows {
    builders: [Builder; 5],
    reports: usize,
}

type Text = Maybe<String>;
type Count = Maybe<i64>;
type Number = Maybe<f64>;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Report {
    findings: First<Finding, FINDINGS>,
    recording: Option<Recording>,
    completeness: Option<Completeness>,
    functions: First<Function, FUNCTIONS>,
    metrics: Option<Metrics>,
    dumps: First<Dump, SIGNATURES>,
    heaps: First<Heap, SIGNATURES>,
    processes: First<Process, 1>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Finding {
    id: Text,
    severity: Text,
    impact: Number,
    title: Text,
    of: Option<Source>,
    evidence: First<Evidence, LOOKED_THROUGH>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Source {
    kind: Text,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Evidence {
    reference: Option<Reference>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Reference {
    kind: Text,
    name: Text,
    module: Text,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Recording {
    tool: Text,
    target_name: Text,
    seconds: Number,
    host: Option<Host>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Host {
    os: Text,
    kernel: Text,
    architecture: Text,
    cpus: Count,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Completeness {
    partial: Maybe<bool>,
    sampled_ns: Count,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Function {
    name: Text,
    module: Text,
    kind: Text,
    cpu_self_ns: Count,
    cpu_total_ns: Count,
    wait_self_ns: Count,
    wait_total_ns: Count,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metrics {
    summary: First<Metric, METRICS>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metric {
    table: Text,
    column: Text,
    key: Text,
    unit: Text,
    readings: Count,
    missing: Count,
    mean: Number,
    min: Number,
    max: Number,
    last: Number,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Dump {
    identity: Option<Identity>,
    signature: Option<Signature>,
    runtimes: First<Runtime, 1>,
    managed: Option<Managed>,
    modules: First<Module, LOOKED_THROUGH>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Identity {
    name: Text,
    executable: Text,
    kernel: Text,
    writer: Text,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Signature {
    text: Text,
    version: Count,
    made_from: Text,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Managed {
    runtimes: First<Runtime, 1>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Runtime {
    name: Text,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Module {
    path: Text,
    build_id: Text,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Heap {
    name: Text,
    runtime: Text,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Process {
    runtime: Text,
    runtime_version: Text,
}

impl Finding {
    /// The first function that its evidence names: name and module.
    fn place(&self) -> Option<(&str, &str)> {
        let references = self.evidence.0.iter().filter_map(|evidence| evidence.reference.as_ref());
        let mut functions =
            references.filter(|one| one.kind.text() == "function" && !one.name.text().is_empty());
        functions.next().map(|one| (one.name.text(), one.module.text()))
    }

    /// What equal causes have in common: the finding and its place, if it is a warning or worse and has one.
    fn cause(&self) -> Option<String> {
        let is_grave = ["warning", "critical"].contains(&self.severity.text());
        let (name, module) = self.place().filter(|_| is_grave)?;
        let module = if module.is_empty() { String::new() } else { format!(" | {module}") };
        Some(format!("{} | {name}{module}", self.id.text()))
    }
}

/// The first that is not empty.
fn first<'a>(texts: impl IntoIterator<Item = &'a str>) -> Field<'a> {
    Field::Text(texts.into_iter().find(|text| !text.is_empty()).unwrap_or_default())
}

impl Default for Rows {
    fn default() -> Self {
        Self { builders: Table::ALL.map(Builder::new), reports: 0 }
    }
}

impl Rows {
    /// Adds what a report says.
    ///
    /// # Errors
    /// It is no JSON, or not of the form of a report: then nothing is added.
    pub fn add(&mut self, about: About<'_>, report: &str) -> Result<(), CasesError> {
        // serde takes a list for fields in order, too.
        if !report.trim_start().starts_with('{') {
            return Err(serde_json::Error::custom("it is no object").into());
        }
        let report: Report = serde_json::from_str(report)?;
        let common = [Field::Text(about.case), Field::Text(about.upload), Field::Moment(about.analysed_at)];
        self.add_case(&common, &report);
        self.add_findings(&common, &report);
        for metric in report.metrics.iter().flat_map(|metrics| &metrics.summary.0) {
            let name = format!("{}.{}", metric.table.text(), metric.column.text());
            let own = [
                Field::Text(&name),
                Field::Text(metric.key.text()),
                Field::Text(metric.unit.text()),
                Field::Count(metric.readings.0),
                Field::Count(metric.missing.0),
                Field::Number(metric.mean.0),
                Field::Number(metric.min.0),
                Field::Number(metric.max.0),
                Field::Number(metric.last.0),
            ];
            self.push(Table::Metrics, &common, &own);
        }
        for (rank, function) in (1..).zip(&report.functions.0) {
            let own = [
                Field::Count(Some(rank)),
                Field::Text(function.name.text()),
                Field::Text(function.module.text()),
                Field::Text(function.kind.text()),
                Field::Count(function.cpu_self_ns.0),
                Field::Count(function.cpu_total_ns.0),
                Field::Count(function.wait_self_ns.0),
                Field::Count(function.wait_total_ns.0),
            ];
            self.push(Table::Functions, &common, &own);
        }
        self.reports += 1;
        Ok(())
    }

    fn add_case(&mut self, common: &[Field<'_>], report: &Report) {
        let recording = report.recording.as_ref();
        let host = recording.and_then(|recording| recording.host.as_ref());
        let process = report.processes.0.first();
        let dump = report.dumps.0.first();
        let identity = dump.and_then(|dump| dump.identity.as_ref());
        let heap = report.heaps.0.first();
        let of_dump = dump.and_then(|dump| {
            dump.runtimes
                .0
                .first()
                .or_else(|| dump.managed.as_ref().and_then(|managed| managed.runtimes.0.first()))
        });
        let executable = identity.map(|one| one.executable.text()).filter(|path| !path.is_empty());
        let build = executable.zip(dump).and_then(|(path, dump)| {
            dump.modules
                .0
                .iter()
                .find(|module| module.path.text() == path)
                .map(|module| module.build_id.text())
        });
        let text = |text: Option<&Text>| text.and_then(|text| text.0.clone()).unwrap_or_default();
        let (os, architecture) = (text(host.map(|host| &host.os)), text(host.map(|host| &host.architecture)));
        let version = text(process.map(|process| &process.runtime_version));
        let own = [
            first([
                recording.map_or("", |recording| recording.target_name.text()),
                identity.map_or("", |identity| identity.name.text()),
                heap.map_or("", |heap| heap.name.text()),
            ]),
            first([
                process.map_or("", |process| process.runtime.text()),
                of_dump.map_or("", |runtime| runtime.name.text()),
                heap.map_or("", |heap| heap.runtime.text()),
            ]),
            Field::Text(&version),
            Field::Text(build.unwrap_or_default()),
            Field::Text(&os),
            first([
                host.map_or("", |host| host.kernel.text()),
                identity.map_or("", |identity| identity.kernel.text()),
            ]),
            Field::Text(&architecture),
            Field::Count(host.and_then(|host| host.cpus.0)),
            first([
                recording.map_or("", |recording| recording.tool.text()),
                identity.map_or("", |identity| identity.writer.text()),
            ]),
            Field::Number(recording.and_then(|recording| recording.seconds.0)),
            Field::Count(report.completeness.as_ref().and_then(|one| one.sampled_ns.0)),
            Field::Truth(report.completeness.as_ref().and_then(|one| one.partial.0)),
            Field::Count(i64::try_from(report.dumps.0.len()).ok()),
            Field::Count(i64::try_from(report.heaps.0.len()).ok()),
        ];
        self.push(Table::Cases, common, &own);
    }

    fn add_findings(&mut self, common: &[Field<'_>], report: &Report) {
        let mut causes = std::collections::BTreeSet::new();
        for finding in &report.findings.0 {
            let (name, module) = finding.place().unwrap_or_default();
            let own = [
                Field::Text(finding.id.text()),
                Field::Text(finding.severity.text()),
                Field::Number(finding.impact.0),
                Field::Text(finding.title.text()),
                Field::Text(finding.of.as_ref().map_or("recorded", |of| of.kind.text())),
                Field::Text(name),
                Field::Text(module),
            ];
            self.push(Table::Findings, common, &own);
            causes.extend(finding.cause().filter(|_| causes.len() < SIGNATURES));
        }
        let program = report.recording.as_ref().map_or("", |recording| recording.target_name.text());
        for cause in &causes {
            let own = [
                Field::Text("cause"),
                Field::Text(cause),
                Field::Count(None),
                Field::Text(""),
                Field::Text(program),
            ];
            self.push(Table::Signatures, common, &own);
        }
        for dump in &report.dumps.0 {
            let Some(signature) = dump.signature.as_ref().filter(|one| !one.text.text().is_empty()) else {
                continue;
            };
            let own = [
                Field::Text("crash"),
                Field::Text(signature.text.text()),
                Field::Count(signature.version.0),
                Field::Text(signature.made_from.text()),
                Field::Text(dump.identity.as_ref().map_or("", |identity| identity.name.text())),
            ];
            self.push(Table::Signatures, common, &own);
        }
    }

    fn push(&mut self, table: Table, common: &[Field<'_>], own: &[Field<'_>]) {
        let at = Table::ALL.iter().position(|one| *one == table).unwrap_or_default();
        if let Some(builder) = self.builders.get_mut(at) {
            builder.push(&[common, own].concat());
        }
    }

    /// How many reports they are of.
    #[must_use]
    pub fn reports(&self) -> usize {
        self.reports
    }

    /// The tables that have rows, sorted.
    ///
    /// # Errors
    /// They do not fit their columns.
    pub fn finish(mut self) -> Result<Vec<(Table, RecordBatch)>, CasesError> {
        let mut tables = Vec::new();
        for (table, builder) in Table::ALL.into_iter().zip(&mut self.builders) {
            if builder.rows() > 0 {
                tables.push((table, sorted(table, &builder.finish()?)?));
            }
        }
        Ok(tables)
    }
}
