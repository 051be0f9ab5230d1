//! Kinds of processes: those that are shipped as data, and those of the user.

use std::collections::BTreeMap;

use crate::process::Observed;
use crate::rules::Who;
use crate::text::{Node, parse_json};

const SHIPPED: &str = include_str!("kinds.json");

/// Kinds by name; names are compared without case.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Kinds(BTreeMap<String, (String, Who)>);

impl Kinds {
    /// Those that are shipped.
    #[must_use]
    pub fn shipped() -> Self {
        let mut kinds = Self::default();
        // A test reads them.
        if let Ok(root) = parse_json(SHIPPED) {
            kinds.add(&root);
        }
        kinds
    }

    /// Adds all of an object; of one name, the later ones are used. A kind of the user may not be made of other kinds.
    pub fn add(&mut self, kinds: &Node) {
        for member in kinds.members() {
            let mut who = Who::of(&member.node);
            who.0.iter_mut().for_each(|conditions| conditions.kinds.clear());
            self.0.insert(member.key.to_lowercase(), (member.key.clone(), who));
        }
    }

    /// Whether a process is of a kind.
    #[must_use]
    pub fn is(&self, kind: &str, process: &Observed) -> bool {
        // Kinds hold no kinds: there is no circle.
        self.0.get(&kind.to_lowercase()).is_some_and(|(_, who)| who.is(process, &|_, _| false))
    }

    /// What a program alone tells of these and of the kinds among them. `None`: any program may be one.
    #[must_use]
    pub fn by_program(&self, who: &[Who]) -> Option<(Vec<Who>, Self)> {
        let mut kinds = BTreeMap::new();
        for name in who.iter().flat_map(Who::kinds).map(str::to_lowercase) {
            if let Some((written, of_kind)) = self.0.get(&name) {
                kinds.insert(name, (written.clone(), of_kind.by_program()?));
            }
        }
        let who = who.iter().map(Who::by_program).collect::<Option<_>>()?;
        Some((who, Self(kinds)))
    }

    /// Whether a process is one of those that are meant.
    #[must_use]
    pub fn applies(&self, who: &Who, process: &Observed) -> bool {
        who.is(process, &|kind, process| self.is(kind, process))
    }

    /// Whether there is a kind of this name; and, if so, whether it can have processes here.
    #[must_use]
    pub fn knows(&self, kind: &str) -> Option<bool> {
        self.0.get(&kind.to_lowercase()).map(|(_, who)| !who.0.is_empty())
    }

    /// Whether it matters for any of them who started a process.
    #[must_use]
    pub fn ask_for_parents(&self) -> bool {
        self.0.values().any(|(_, who)| who.asks_for_parents())
    }

    /// Names, as they are written.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.values().map(|(name, _)| name.as_str())
    }

    /// The first kind that a process is of.
    #[must_use]
    pub fn of(&self, process: &Observed) -> Option<&str> {
        let is = |(_, who): &&(String, Who)| who.is(process, &|_, _| false);
        self.0.values().find(is).map(|(name, _)| name.as_str())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use biopsy_model::{Pid, ProcessKey};

    use super::*;

    pub(crate) fn process(exe: &str, arguments: &[&str]) -> Observed {
        let file = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
        let entry = arguments.iter().skip(1).find(|one| one.ends_with(".dll") || one.ends_with(".exe"));
        Observed {
            key: ProcessKey { boot_id: Default::default(), pid: Pid(100), start_ticks: 1 },
            is_held: false,
            parent: Pid(1),
            name: file(exe).chars().take(15).collect(),
            exe: exe.to_owned(),
            entry: entry.map(|path| file(path)),
            arguments: arguments.iter().map(|&one| one.to_owned()).collect(),
            uid: 1000,
            user: "ann".to_owned(),
            unit: None,
            container: None,
            parent_names: Vec::new(),
            age: Default::default(),
            cpu: Default::default(),
            resident_bytes: 0,
            threads: 1,
        }
    }

    #[test]
    fn kinds_by_command_lines_that_were_seen() {
        let kinds = Kinds::shipped();
        for (line, expected) in [
            (
                "/sdk/dotnet /sdk/dotnet /sdk/sdk/10.0.401/Roslyn/bincore/VBCSCompiler.dll -pipename:abc",
                Some("Compiler"),
            ),
            ("/sdk/dotnet dotnet /sdk/Roslyn/bincore/VBCSCompiler.dll -pipename:abc -shutdown", None),
            (
                "/sdk/sdk/10/Roslyn/bincore/VBCSCompiler /sdk/sdk/10/Roslyn/bincore/VBCSCompiler -pipename:abc",
                Some("Compiler"),
            ),
            ("/sdk/dotnet /sdk/dotnet exec /sdk/Roslyn/bincore/csc.dll @x.rsp", Some("Compiler")),
            (
                "/sdk/dotnet /sdk/dotnet /sdk/sdk/10.0.401/MSBuild.dll /nologo /nodemode:1 /nodeReuse:true",
                Some("MsBuild"),
            ),
            ("/sdk/dotnet dotnet build x.slnx -c Release", Some("DotNetCommand")),
            ("/sdk/dotnet dotnet exec /srv/build/x.dll", None),
            (
                "/sdk/dotnet dotnet exec --depsfile x /home/u/.nuget/packages/t/1.0/tools/net8.0/any/t.dll",
                Some("DotNetTool"),
            ),
            ("/home/u/.dotnet/tools/dotnet-counters dotnet-counters ps", Some("DotNetTool")),
            ("/sdk/dotnet dotnet exec /x/bin/testhost.dll --port 1", Some("TestHost")),
            ("/opt/x/testhost testhost", Some("TestHost")),
            ("/opt/rider/lib/ReSharperHost/linux-x64/Rider.Backend Rider.Backend 1", Some("Rider")),
            ("/opt/octopus/Octopus.Server /opt/octopus/Octopus.Server run", Some("OctopusServer")),
            ("/usr/bin/dotnet dotnet /opt/t/Tentacle.dll run", Some("OctopusTentacle")),
            ("/usr/bin/dotnet dotnet /w/Calamari.AzureAppService.dll run-script", Some("Calamari")),
            ("/usr/bin/node node /x/node_modules/typescript/lib/tsserver.js", Some("LanguageServer")),
            ("/usr/bin/rust-analyzer rust-analyzer", Some("LanguageServer")),
            ("/usr/bin/vim vim csc.c", None),
            ("/usr/bin/cscope cscope", None),
        ] {
            let mut words = line.split(' ');
            let exe = words.next().unwrap();
            let arguments: Vec<&str> = words.collect();
            assert_eq!(kinds.of(&process(exe, &arguments)), expected, "{line}");
        }
        assert_eq!(kinds.knows("compiler"), Some(true));
        assert_eq!(kinds.knows("DevEnv"), Some(false));
        assert_eq!(kinds.knows("Compilers"), None);
    }

    #[test]
    fn every_kind_of_the_vendor_is_known() {
        let kinds = Kinds::shipped();
        for kind in "Other Compiler DevEnv RoslynCodeAnalysisService Rider VisualStudioMac BackstageWorker BackstageDesktopWindows \
                     DotNetTool TestHost OmniSharp CodeLensService ResharperTestRunner LinqPad LanguageServer MsBuild Format"
            .split_whitespace()
        {
            assert!(kinds.knows(kind).is_some(), "{kind}");
        }
    }
}
