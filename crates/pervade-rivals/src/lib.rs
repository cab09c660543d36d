//! The methods that VaDE is compared with, one file each, behind the trait that VaDE itself implements
//! ([`pervade::Clusterer`]): the inputs are rows and a seed, never labels.
//!
//! ```
//! use pervade::compute::Cpu;
//! use pervade::data::Dataset;
//! use pervade::train::Silent;
//!
//! let side = |i: i32| if i % 2 == 0 { 0.0 } else { 9.0 };
//! let rows = (0..100).flat_map(|i| [side(i) + (i as f32 * 0.7).sin(), side(i) - (i as f32 * 1.3).cos()]);
//! let data = Dataset::from_rows(100, 2, rows.collect())?;
//! let method = pervade_rivals::method::<Cpu>("k-means").expect("a name from the list");
//! let device = Cpu::new();
//! let clustering = method.with_clusters(2).cluster(&data, &device, 0, &mut Silent)?;
//! let clusters = clustering.assign(&device, &data)?;
//! assert!((0..100).all(|i| clusters[i] == clusters[i % 2]));
//! # Ok::<(), pervade::Error>(())
//! ```

mod aae;
mod adversarial;
mod ae_gmm;
mod checked;
mod connected;
mod dec;
mod dlgmm;
mod eigen;
mod encoded;
mod gmm;
mod gower_ward;
mod infogan;
mod k_prototypes;
mod kmeans;
mod latents;
mod ldmgi;
mod mixed;
mod nearest;
mod normed_encoder;
mod rows;
mod sb_vae;
mod small;
mod sparse;
mod spectral;
mod steps;
#[cfg(test)]
mod tests;
mod vae;
mod vae_gmm;

pub use aae::Aae;
pub use ae_gmm::AeGmm;
pub use dec::Dec;
pub use dlgmm::Dlgmm;
pub use gmm::{Covariance, Gmm};
pub use gower_ward::GowerWard;
pub use infogan::InfoGan;
pub use k_prototypes::KPrototypes;
pub use kmeans::KMeans;
pub use ldmgi::Ldmgi;
pub use sb_vae::SbVae;
pub use spectral::Spectral;
pub use vae::Vae;
pub use vae_gmm::VaeGmm;

use pervade::compute::{
    BatchNorm, Codes, Convolution, Device, MixturePosterior, SoftClusters, StickBreaking,
};
use pervade::config::Settings;
use pervade::data::Dataset;
use pervade::{Clusterer, Result};

/// All operations that a method which generates images needs from a device.
pub trait ImageDevice: Device + Convolution + BatchNorm + Codes {}

impl<D: Device + Convolution + BatchNorm + Codes> ImageDevice for D {}

/// All operations that any rival needs from a device.
pub trait RivalDevice: ImageDevice + SoftClusters + StickBreaking + MixturePosterior {}

impl<D: ImageDevice + SoftClusters + StickBreaking + MixturePosterior> RivalDevice for D {}

/// A rival method: its name, description and constructor.
pub struct Method<D: RivalDevice> {
    /// The name in tables and on the command line.
    pub name: &'static str,
    /// A short description with its paper.
    pub about: &'static str,
    build: fn(usize, &Networks) -> Box<dyn Clusterer<D>>,
}

/// Network settings shared by all deep methods in a comparison; `None` keeps each method's default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Networks {
    /// Widths of the encoder's hidden layers.
    pub hidden: Option<Vec<usize>>,
    /// Epochs of pretraining.
    pub pretrain_epochs: Option<usize>,
    /// Epochs of the main training.
    pub epochs: Option<usize>,
}

impl Networks {
    /// `settings` with these values replaced.
    pub fn applied_to(&self, settings: Settings) -> Settings {
        settings.with(|s| {
            if let Some(hidden) = &self.hidden {
                s.hidden = Some(hidden.clone());
            }
            s.pretrain_epochs = self.pretrain_epochs.or(s.pretrain_epochs);
            s.epochs = self.epochs.or(s.epochs);
        })
    }
}

impl<D: RivalDevice> Method<D> {
    /// The method with its default settings and K clusters.
    pub fn with_clusters(&self, n_clusters: usize) -> Box<dyn Clusterer<D>> {
        self.with_networks(n_clusters, &Networks::default())
    }

    /// The method with K clusters and these network settings.
    pub fn with_networks(&self, n_clusters: usize, networks: &Networks) -> Box<dyn Clusterer<D>> {
        Box::new(checked::Checked((self.build)(n_clusters, networks)))
    }
}

/// All clustering methods: first those that the paper's table does not have, then the others in its order.
pub fn methods<D: RivalDevice>() -> Vec<Method<D>> {
    vec![
        Method {
            name: "k-means",
            about: "Lloyd's iterations from a k-means++ start (Arthur and Vassilvitskii, 2007)",
            build: |n_clusters, _| Box::new(KMeans { n_clusters, ..KMeans::default() }),
        },
        Method {
            name: "spectral",
            about: "normalised spectral clustering of a neighbour graph (Ng, Jordan and Weiss, 2002)",
            build: |n_clusters, _| Box::new(Spectral { n_clusters, ..Spectral::default() }),
        },
        Method {
            name: "k-prototypes",
            about: "k-means for tables with categories: means and most frequent levels (Huang, 1998)",
            build: |n_clusters, _| Box::new(KPrototypes { n_clusters, ..KPrototypes::default() }),
        },
        Method {
            name: "gower-ward",
            about: "Ward's tree (1963) of the rows by Gower's distance (1971); above 10,000 rows, of a sample",
            build: |n_clusters, _| Box::new(GowerWard { n_clusters, ..GowerWard::default() }),
        },
        Method {
            name: "gmm",
            about: "Gaussian mixture with diagonal covariances by EM (Dempster, Laird and Rubin, 1977)",
            build: |n_clusters, _| Box::new(Gmm { n_clusters, ..Gmm::default() }),
        },
        Method {
            name: "gmm-full",
            about: "the same with full covariances",
            build: |n_clusters, _| {
                Box::new(Gmm { n_clusters, covariance: Covariance::Full, ..Gmm::default() })
            },
        },
        Method {
            name: "ae+gmm",
            about: "an auto-encoder, then a Gaussian mixture on its latents (baseline of Jiang et al., 2017)",
            build: |n_clusters, networks| {
                let method = AeGmm::default();
                Box::new(AeGmm {
                    n_clusters,
                    settings: networks.applied_to(method.settings.clone()),
                    ..method
                })
            },
        },
        Method {
            name: "vae+gmm",
            about: "a variational auto-encoder (Kingma and Welling, 2014), then a Gaussian mixture on its means",
            build: |n_clusters, networks| {
                let method = VaeGmm::default();
                Box::new(VaeGmm {
                    n_clusters,
                    settings: networks.applied_to(method.settings.clone()),
                    ..method
                })
            },
        },
        Method {
            name: "ldmgi",
            about: "local discriminant models and global integration (Yang et al., 2010)",
            build: |n_clusters, _| Box::new(Ldmgi { n_clusters, ..Ldmgi::default() }),
        },
        Method {
            name: "aae",
            about: "an adversarial auto-encoder with a cluster and a style for its code (Makhzani et al., 2015)",
            build: |n_clusters, networks| {
                let method = Aae::default();
                Box::new(Aae { n_clusters, settings: networks.applied_to(method.settings.clone()), ..method })
            },
        },
        Method {
            name: "dec",
            about: "an auto-encoder's latents, clustered and sharpened (Xie, Girshick and Farhadi, 2016)",
            build: |n_clusters, networks| {
                let method = Dec::default();
                Box::new(Dec { n_clusters, settings: networks.applied_to(method.settings.clone()), ..method })
            },
        },
    ]
}

/// Methods whose purpose is not clustering but representation or generation; the paper has them in other tables.
pub fn others<D: RivalDevice>() -> Vec<Method<D>> {
    vec![
        Method {
            name: "vae",
            about: "a variational auto-encoder: the means of q(z|x) (Kingma and Welling, 2014)",
            build: |_, networks| Box::new(Vae { settings: networks.applied_to(Vae::default().settings) }),
        },
        Method {
            name: "infogan",
            about: "images generated from a cluster and a style that can be recovered from them (Chen et al., 2016)",
            build: |n_clusters, networks| {
                let method = InfoGan::default();
                let epochs = networks.epochs.unwrap_or(method.epochs);
                Box::new(InfoGan { n_clusters, epochs, ..method })
            },
        },
        Method {
            name: "sb-vae",
            about: "a variational auto-encoder of stick-breaking weights (Nalisnick and Smyth, 2017)",
            build: |_, networks| {
                let method = SbVae::default();
                Box::new(SbVae { settings: networks.applied_to(method.settings.clone()), ..method })
            },
        },
        Method {
            name: "dlgmm",
            about: "a variational auto-encoder whose posterior is a mixture (Nalisnick, Hertel and Smyth, 2016)",
            build: |_, networks| {
                let method = Dlgmm::default();
                Box::new(Dlgmm { settings: networks.applied_to(method.settings.clone()), ..method })
            },
        },
    ]
}

/// The method called `name`, if it exists.
pub fn method<D: RivalDevice>(name: &str) -> Option<Method<D>> {
    methods().into_iter().chain(others()).find(|method| method.name == name)
}

/// The rows as every method here sees them: dense, and prepared as for VaDE. `[N, D]`
pub fn prepared_rows(data: &Dataset) -> Result<Vec<f32>> {
    let rows = || rows::dense(data, &rows::preparation(data)?);
    data.unless_changed(rows())
}
