//! The watcher as a service of systemd.

use biopsy_capture::Failure;
use biopsy_model::printable::printable;
use biopsy_standby::service::{Service, Uninstalled};
use biopsy_standby::watch::WatchPlan;
use biopsy_watch::Settings;

use biopsy_foreground::{Code, out};

/// Installs it, and says where.
pub(super) fn install(service: Service, plan: &WatchPlan<'_>, settings: &Settings) -> Result<Code, Failure> {
    let installed = service.install(plan, settings)?;
    let flag = if service.is_user { " --user" } else { "" };
    let text = format!(
        "the watcher runs, and starts with {}\nunit: {}\nresults: {}\n`biopsy watch{flag} status`, `stop`, `start`, `logs`; `biopsy watch{flag} --uninstall` takes it away\n",
        if service.is_user { "this user's sessions" } else { "the machine" },
        printable(&installed.unit.display().to_string()),
        printable(&installed.results.display().to_string()),
    );
    out::text(&text, false)
}

/// Takes it away, and says what was on.
pub(super) fn uninstall(service: Service) -> Result<Code, Failure> {
    let text = match service.uninstall()? {
        Uninstalled::NotThere(path) => {
            format!("there is no service: no `{}`\n", printable(&path.display().to_string()))
        }
        Uninstalled::Gone(ended) => {
            let ended: String = ended.iter().map(|line| format!("{}\n", printable(line))).collect();
            format!(
                "{ended}the service is gone, and nothing is on any more; settings and results stay where they are\n"
            )
        }
    };
    out::text(&text, false)
}
