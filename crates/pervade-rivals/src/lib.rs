//! The methods that VaDE is compared with, each one file behind the trait that VaDE itself uses
//! ([`pervade::Clusterer`]): rows and a seed go in, no labels.
//!
//! ```
//! use pervade::compute::Cpu;
//! use pervade::data::Dataset;
//! use pervade::train::Silent;
//!
//! let rows = (0..100).flat_map(|i| [if i % 2 == 0 { 0.0 } else { 1.0 }, (i as f32 * 0.7).sin() * 0.1]);
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
mod dec;
mod kmeans;
mod latents;
mod rows;
mod vae_gmm;

pub use aae::Aae;
pub use ae_gmm::AeGmm;
pub use dec::Dec;
pub use kmeans::KMeans;
pub use vae_gmm::VaeGmm;

use pervade::Clusterer;
use pervade::compute::Device;

/// A rival: what it is called and how to get it.
pub struct Method<D: Device> {
    /// The name in tables and on the command line.
    pub name: &'static str,
    /// What it is, in a few words, with its paper.
    pub about: &'static str,
    build: fn(usize) -> Box<dyn Clusterer<D>>,
}

impl<D: Device> Method<D> {
    /// The method with its paper's settings and K clusters.
    pub fn with_clusters(&self, n_clusters: usize) -> Box<dyn Clusterer<D>> {
        (self.build)(n_clusters)
    }
}

/// All clustering methods, in the order of the paper's table.
pub fn methods<D: Device>() -> Vec<Method<D>> {
    vec![
        Method {
            name: "k-means",
            about: "Lloyd's iterations from a k-means++ start (Arthur and Vassilvitskii, 2007)",
            build: |n_clusters| Box::new(KMeans { n_clusters, ..KMeans::default() }),
        },
        Method {
            name: "AE+GMM",
            about: "an auto-encoder, then a Gaussian mixture on its latents (baseline of Jiang et al., 2017)",
            build: |n_clusters| Box::new(AeGmm { n_clusters, ..AeGmm::default() }),
        },
        Method {
            name: "VAE+GMM",
            about: "a variational auto-encoder (Kingma and Welling, 2014), then a Gaussian mixture on its means",
            build: |n_clusters| Box::new(VaeGmm { n_clusters, ..VaeGmm::default() }),
        },
        Method {
            name: "AAE",
            about: "an adversarial auto-encoder with a cluster and a style for its code (Makhzani et al., 2015)",
            build: |n_clusters| Box::new(Aae { n_clusters, ..Aae::default() }),
        },
        Method {
            name: "DEC",
            about: "an auto-encoder's latents, clustered and sharpened (Xie, Girshick and Farhadi, 2016)",
            build: |n_clusters| Box::new(Dec { n_clusters, ..Dec::default() }),
        },
    ]
}

/// The method of that name, in capitals or not.
pub fn method<D: Device>(name: &str) -> Option<Method<D>> {
    methods().into_iter().find(|method| method.name.eq_ignore_ascii_case(name))
}
