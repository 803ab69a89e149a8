//! Certificate authorities, certificates and key stores for the tests, created by `openssl` and
//! `keytool`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::peers::Outcome;

/// The password of all key stores.
pub(super) const PASSWORD: &str = "changeit";

/// The certificate files of a test run.
pub(super) struct Files {
    dir: PathBuf,
}

impl Files {
    /// Creates an authority that certifies a venue and a client, and another authority of the same
    /// name that certifies a stranger. All files exist in PEM form and as key stores.
    pub(super) fn make(dir: &Path) -> Outcome<Self> {
        fs::create_dir_all(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        let files = Self { dir: dir.to_owned() };
        // The authorities have the same name and differ only in the key. Java would present no
        // certificate to a peer that trusts no authority of this name.
        for authority in ["ca", "other"] {
            files.run(&format!(
                "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
                 -keyout {authority}.key -out {authority}.pem -subj /CN=authority"
            ))?;
        }
        for (owner, authority) in [("venue", "ca"), ("client", "ca"), ("stranger", "other")] {
            let names = "basicConstraints=CA:FALSE\nsubjectAltName=IP:127.0.0.1,DNS:localhost\n";
            let names_file = dir.join("names");
            fs::write(&names_file, names).map_err(|error| error.to_string())?;
            for command in [
                format!(
                    "openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout \
                     {owner}.key -out {owner}.csr -subj /CN={owner}.example"
                ),
                format!(
                    "openssl x509 -req -in {owner}.csr -CA {authority}.pem -CAkey {authority}.key \
                     -CAcreateserial -days 2 -extfile names -out {owner}.pem"
                ),
                format!(
                    "openssl pkcs12 -export -in {owner}.pem -inkey {owner}.key -certfile \
                     {authority}.pem -name {owner} -passout pass:{PASSWORD} -out {owner}.p12"
                ),
                format!(
                    "keytool -importkeystore -noprompt -srckeystore {owner}.p12 -srcstoretype \
                     PKCS12 -srcstorepass {PASSWORD} -destkeystore {owner}.jks -deststoretype JKS \
                     -deststorepass {PASSWORD}"
                ),
            ] {
                files.run(&command)?;
            }
        }
        files.run(&format!(
            "keytool -importcert -noprompt -alias ca -file ca.pem -keystore trust.jks -storetype \
             JKS -storepass {PASSWORD}"
        ))?;
        Ok(files)
    }

    fn run(&self, command: &str) -> Outcome<()> {
        shell(Command::new("sh").args(["-c", command]).current_dir(&self.dir), command)
    }

    pub(super) fn pem(&self, name: &str, end: &str) -> PathBuf {
        self.dir.join(format!("{name}.{end}"))
    }

    /// Copies the key stores of the owner and of the authority to a session's folder.
    pub(super) fn copy_stores(&self, owner: &str, to: &Path) -> Outcome<(PathBuf, PathBuf)> {
        let copy = |name: &str| {
            let (from, to) = (self.pem(name, "jks"), to.join(format!("{name}.jks")));
            fs::copy(&from, &to).map_err(|error| format!("{}: {error}", from.display()))?;
            Ok::<_, String>(to)
        };
        Ok((copy(owner)?, copy("trust")?))
    }
}

/// Runs a command from a migration report, and enters the password that the command asks for.
pub(super) fn obey(command: &str) -> Outcome<()> {
    let stores = format!(
        "keytool -importkeystore -noprompt -srcstorepass {PASSWORD} -deststorepass {PASSWORD}"
    );
    let answered = command
        .replace("keytool -importkeystore", &stores)
        .replace("openssl pkcs12", &format!("openssl pkcs12 -passin pass:{PASSWORD}"));
    shell(Command::new("sh").args(["-c", &answered]), command)
}

fn shell(command: &mut Command, text: &str) -> Outcome<()> {
    let output = command.output().map_err(|error| format!("sh: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said).into_owned();
            Err(format!("{text}: {}\n{said}", output.status))
        }
    }
}
