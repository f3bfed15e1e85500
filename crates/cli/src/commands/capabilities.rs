//! `capabilities`: what the service promises once it was examined, or what each service promises.

use super::service::{answer, block_on_closing, open_by};
use crate::args::Global;
use crate::config::ServiceSettings;
use crate::exit::CommandFailure;
use crate::output::{Matrix, Promises};

pub(super) fn capabilities(global: &Global) -> Result<u8, CommandFailure> {
    let settings = ServiceSettings::load(global)?;
    if !settings.is_named() {
        let matrix = Matrix::of_all_services();
        return answer(global, &matrix, || matrix.text());
    }
    let keeper = open_by(global, &settings)?;
    let findings = block_on_closing(&keeper, keeper.admin().examine())??;
    let promises = Promises::new(keeper.service(), keeper.capabilities(), &findings);
    answer(global, &promises, || promises.text())
}
