//! What the tests of several methods share.

use pervade::compute::Cpu;
use pervade::data::Dataset;
use pervade::train::{Control, Event, Observer, Silent};
use pervade::{Clusterer, Error};

/// Stops at the first epoch after pretraining.
struct StopsAtFirstEpoch;

impl Observer for StopsAtFirstEpoch {
    fn event(&mut self, event: &Event<'_>) -> Control {
        if matches!(event, Event::Trained(..)) { Control::Stop } else { Control::Continue }
    }
}

/// Training ends with an error if an observer stops it.
pub(crate) fn can_be_stopped(method: &dyn Clusterer<Cpu>, data: &Dataset<'_>) {
    let error = method.cluster(data, &Cpu::new(), 0, &mut StopsAtFirstEpoch).err().expect("stopped");
    assert!(matches!(error, Error::Interrupted { .. }), "{}: {error}", method.name());
}

/// A fitted method refuses rows with another number of columns.
pub(crate) fn refuses_narrow_rows(method: &dyn Clusterer<Cpu>, data: &Dataset<'_>) {
    let device = Cpu::new();
    let fitted = method.cluster(data, &device, 0, &mut Silent).unwrap();
    let narrow = Dataset::from_rows(2, 2, vec![0.0, 1.0, 0.5, 0.3]).unwrap();
    assert!(fitted.assign(&device, &narrow).is_err(), "{}", method.name());
    assert!(fitted.embed(&device, &narrow).is_err(), "{}", method.name());
}
