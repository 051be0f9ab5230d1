//! Logging in at the company's own provider: what may be typed of it.

use std::path::PathBuf;

use biopsy_lab::LabError;
use biopsy_lab::people::Role;
use biopsy_lab::people::provider::{Provider, Settings};
use clap::Args;
use zeroize::Zeroizing;

#[derive(Debug, Args)]
#[command(next_help_heading = "Logging in at your own provider (OpenID Connect)")]
pub(crate) struct LoginArgs {
    /// The provider, as it names itself: `https://login.example/realms/vendor`.
    #[arg(long, value_name = "URL", requires_all = ["oidc_client", "oidc_roles", "address"])]
    oidc_issuer: Option<String>,
    /// The lab's client id there.
    #[arg(long, value_name = "ID", requires = "oidc_issuer")]
    oidc_client: Option<String>,
    /// A file with the client's secret. Without one it is a public client.
    #[arg(long, value_name = "FILE", requires = "oidc_issuer")]
    oidc_secret_file: Option<PathBuf>,
    /// Who is in this group at the provider has this role here. Can be given several times. Who is in none has no account.
    #[arg(long = "oidc-role", value_name = "GROUP=ROLE", value_parser = role, requires = "oidc_issuer")]
    oidc_roles: Vec<(String, Role)>,
    /// The claim with the groups: a name, or a way such as `realm_access.roles`.
    #[arg(long, value_name = "CLAIM", default_value = "groups")]
    oidc_claim: String,
    /// What has to be asked for so that the claim comes, beside `openid` and `profile`. Can be given several times.
    #[arg(long = "oidc-scope", value_name = "SCOPE", requires = "oidc_issuer")]
    oidc_scopes: Vec<String>,
    /// What people call the provider.
    #[arg(long, value_name = "NAME", default_value = "your company's account")]
    oidc_name: String,
    /// The lab, as people reach it. The provider has to know `URL/login/provider/back`.
    #[arg(long, value_name = "URL", requires = "oidc_issuer")]
    address: Option<String>,
}

impl LoginArgs {
    /// The provider, if there is one.
    pub(crate) fn provider(self) -> Result<Option<Provider>, LabError> {
        let (Some(issuer), Some(client), Some(address)) = (self.oidc_issuer, self.oidc_client, self.address)
        else {
            return Ok(None);
        };
        let secret = self.oidc_secret_file.map(|file| {
            let text = std::fs::read_to_string(&file).map_err(LabError::io("read", &file))?;
            Ok::<_, LabError>(Zeroizing::new(text.trim().to_owned()))
        });
        let settings = Settings {
            issuer,
            client,
            secret: secret.transpose()?,
            address,
            claim: self.oidc_claim,
            scopes: self.oidc_scopes,
            roles: self.oidc_roles,
            name: self.oidc_name,
        };
        Provider::new(settings).map(Some)
    }
}

fn role(text: &str) -> Result<(String, Role), String> {
    let (group, role) = text.rsplit_once('=').ok_or("it is `GROUP=ROLE`")?;
    Ok((group.to_owned(), role.parse()?))
}
