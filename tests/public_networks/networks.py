# SPDX-License-Identifier: BSD-3-Clause
"""Networks of packages that nobody here wrote, at small widths: NETWORKS[name] has the package and a function that makes one.

The function returns the module and the arguments of a call; `fields` and `whole` are passed on to `graticule.shard_program`.
Packages are imported by the functions alone, so the list can be read without them.
"""
import contextlib
import dataclasses
import datetime
import importlib
import unittest.mock
from typing import Any, Callable, Dict, Tuple

import torch
from torch import nn

NETWORKS: Dict[str, "Network"] = {}


@dataclasses.dataclass(frozen=True)
class Network:
    """package: its name for pip. make: () -> module, inputs by position or by name.

    casts: its own code casts to float32, which is read as float64 here, for its figures to be those of float64.
    single: its kernels are of float32 alone, in which it is compared, to 1e-4.
    """
    package: str
    make: Callable[[], Tuple[nn.Module, Any]]
    options: Dict[str, Any] = dataclasses.field(default_factory=dict)
    casts: bool = False
    single: bool = False


def network(package, casts=False, **options):
    def register(make):
        NETWORKS[make.__name__] = Network(package, make, options, casts)
        return make
    return register


def add(package, name, make, casts=False, single=False, **options):
    NETWORKS[name] = Network(package, make, options, casts, single)


@contextlib.contextmanager
def wide_casts(on):
    """Within: the names of single precision mean double precision, in the code of networks that cast by name."""
    with contextlib.ExitStack() as stack:
        if on:
            for name, wide in (("float32", torch.float64), ("float", torch.float64), ("complex64", torch.complex128), ("cfloat", torch.complex128)):
                stack.enter_context(unittest.mock.patch.object(torch, name, wide))
            stack.enter_context(unittest.mock.patch.object(torch.Tensor, "float", torch.Tensor.double))
        yield


def field(*shape):
    """Smooth values without symmetries, of the order of 1."""
    places = torch.arange(torch.Size(shape).numel(), dtype=torch.float64)
    return (torch.sin(0.37 * places + 1e-4 * places**2) + 0.3 * torch.cos(1.7 * places)).reshape(shape)


class Part(nn.Module):
    """A network by one of its methods, and the part of its result that is a field."""

    def __init__(self, net, method="forward", pick=lambda y: y, **given):
        super().__init__()
        self.net, self.method, self.pick, self.given = net, method, pick, given

    def forward(self, *args):
        return self.pick(getattr(self.net, self.method)(*args, **self.given))


def in_double(module):
    """Complex parameters and buffers as well, which Module.double leaves alone."""
    return module._apply(lambda x: x.to(torch.complex128) if x.is_complex() else x.double() if x.is_floating_point() else x)


def found(path, name):
    return getattr(importlib.import_module(path), name)


# --- timm: the features of a classifier, in front of its pooling ---

def timm_net(name, grid, **options):
    def make():
        import timm
        net = timm.create_model(name, num_classes=0, **options)
        return Part(net, "forward_features"), (field(2, 3, *grid),)
    return make


VIT = {"img_size": (32, 64), "patch_size": 8, "embed_dim": 24, "depth": 2, "num_heads": 3}
for name, model, options in (
        ("timm_resnet10t", "resnet10t", {"stem_width": 8, "channels": (8, 16, 24, 32)}),
        ("timm_resnext", "resnet18", {"layers": (1, 1, 1, 1), "channels": (8, 16, 24, 32)}),
        ("timm_seresnet", "seresnet18", {"layers": (1, 1, 1, 1), "channels": (16, 16, 24, 32)}),
        ("timm_res2net", "res2net50_26w_4s", {"layers": (1, 1, 1, 1), "channels": (8, 8, 12, 16), "base_width": 16}),
        ("timm_densenet", "densenet121", {"growth_rate": 4, "block_config": (2, 2, 2)}),
        ("timm_convnext", "convnext_atto", {"depths": (1, 1, 2, 1), "dims": (8, 12, 16, 24)}),
        ("timm_convnextv2", "convnextv2_atto", {"depths": (1, 1, 2, 1), "dims": (8, 12, 16, 24)}),
        ("timm_inception_next", "inception_next_atto", {"depths": (1, 1, 2, 1), "dims": (16, 24, 32, 48)}),
        ("timm_efficientnet", "efficientnet_lite0", {}),
        ("timm_efficientnetv2", "tf_efficientnetv2_b0", {"channel_multiplier": 0.25, "depth_multiplier": 0.25}),
        ("timm_mobilenetv3", "mobilenetv3_small_050", {}),
        ("timm_mobilenetv4", "mobilenetv4_conv_small_035", {}),
        ("timm_mnasnet", "mnasnet_small", {}),
        ("timm_ghostnet", "ghostnet_050", {}),
        ("timm_regnety", "regnety_002", {}),
        ("timm_repvgg", "repvgg_a0", {}),
        ("timm_hrnet", "hrnet_w18_small", {}),
        ("timm_dla", "dla34", {"channels": (8, 8, 12, 16, 24, 32)}),
        ("timm_vit", "vit_tiny_patch16_224", VIT),
        ("timm_deit3", "deit3_small_patch16_224", VIT),
        ("timm_beit", "beit_base_patch16_224", VIT),
        ("timm_eva", "eva02_tiny_patch14_224", {**VIT, "depth": 2}),
        ("timm_cait", "cait_xxs24_224", VIT),
        ("timm_xcit", "xcit_nano_12_p8_224", {**VIT, "img_size": (32, 64), "num_heads": 3}),
        ("timm_swin", "swin_tiny_patch4_window7_224", {"img_size": (32, 64), "window_size": 4, "embed_dim": 12, "depths": (2, 2), "num_heads": (2, 4)}),
        ("timm_swinv2", "swinv2_tiny_window8_256", {"img_size": (32, 64), "window_size": 4, "embed_dim": 12, "depths": (2, 2), "num_heads": (2, 4)}),
        ("timm_swinv2_cr", "swinv2_cr_tiny_224", {"img_size": (32, 64), "window_size": (4, 4), "embed_dim": 12, "depths": (2, 2), "num_heads": (2, 4)}),
        ("timm_hiera", "hiera_tiny_224", {"img_size": (64, 128), "embed_dim": 12, "stages": (1, 1, 2, 1)}),
        ("timm_maxvit", "maxvit_pico_rw_256", {"img_size": (64, 128)}),
        ("timm_coatnet", "coatnet_nano_rw_224", {"img_size": (32, 64)}),
        ("timm_davit", "davit_tiny", {"depths": (1, 1), "embed_dims": (16, 24), "num_heads": (2, 3), "window_size": 4}),
        ("timm_pvt_v2", "pvt_v2_b0", {"depths": (1, 1, 1, 1), "embed_dims": (8, 16, 20, 32)}),
        ("timm_twins_pcpvt", "twins_pcpvt_small", {"img_size": (64, 128), "depths": (1, 1, 1, 1), "embed_dims": (8, 16, 24, 32), "num_heads": (1, 2, 3, 4)}),
        ("timm_twins_svt", "twins_svt_small", {"img_size": (64, 128), "depths": (1, 1, 2, 1), "embed_dims": (8, 16, 24, 32), "num_heads": (1, 2, 3, 4), "wss": (4, 4, 2, 2)}),
        ("timm_edgenext", "edgenext_xx_small", {"depths": (1, 1, 2, 1), "dims": (8, 16, 24, 32)}),
        ("timm_efficientformer", "efficientformerv2_s0", {"img_size": (64, 128)}),
        ("timm_efficientvit", "efficientvit_b0", {}),
        ("timm_fastvit", "fastvit_t8", {}),
        ("timm_gcvit", "gcvit_xxtiny", {"img_size": (64, 64)}),
        ("timm_mambaout", "mambaout_femto", {"depths": (1, 1, 1, 1), "dims": (16, 24, 32, 48)}),
        ("timm_mobilevit", "mobilevit_xxs", {}),
        ("timm_nextvit", "nextvit_small", {"depths": (1, 1, 2, 1)}),
        ("timm_rdnet", "rdnet_tiny", {"growth_rates": (8, 8, 8), "num_blocks_list": (2, 2, 2), "block_type": ("Block", "BlockESE", "BlockESE"),
                                      "is_downsample_block": (None, True, True), "num_init_features": 16}),
        ("timm_repvit", "repvit_m0_9", {}),
        ("timm_starnet", "starnet_s050", {}),
        ("timm_sequencer", "sequencer2d_s", {"img_size": (32, 64), "layers": (1, 1, 1, 1), "embed_dims": (16, 24, 24, 24)}),
        ("timm_tnt", "tnt_s_legacy_patch16_224", {"img_size": (32, 64), "patch_size": 8, "embed_dim": 24, "inner_dim": 8, "num_heads_inner": 2, "num_heads_outer": 3, "depth": 2}),
        ("timm_tiny_vit", "tiny_vit_5m_224", {"embed_dims": (16, 24, 32, 64), "depths": (1, 1, 1, 1), "num_heads": (1, 2, 2, 4), "window_sizes": (4, 4, 4, 4)}),
        ("timm_visformer", "visformer_tiny", {"img_size": (32, 64)})):
    grid = options.get("img_size", (64, 128))
    add("timm", name, timm_net(model, (grid, grid) if isinstance(grid, int) else grid, **options), casts=name == "timm_efficientvit")


def timm_class(module, name, grid=(32, 64), **options):
    """By the class itself, where the functions of timm fix the sizes."""
    def make():
        return Part(found(f"timm.models.{module}", name)(num_classes=0, **options), "forward_features"), (field(2, 3, *grid),)
    return make


def metaformer(mixer, **options):
    def make():
        from timm.models import metaformer as m
        mixers = {"pool": m.Pooling, "conv": m.SepConv, "mixed": [m.SepConv, m.SepConv, m.Attention, m.Attention]}
        if mixer == "mixed":
            options["norm_layers"] = [m.LayerNorm2dNoBias] * 2 + [m.LayerNormNoBias] * 2
        net = m.MetaFormer(depths=(1, 1, 1, 1), dims=(32, 32, 64, 64), num_classes=0, token_mixers=mixers[mixer], **options)
        return Part(net, "forward_features"), (field(2, 3, 64, 128),)
    return make


add("timm", "timm_poolformerv2", metaformer("pool"))
add("timm", "timm_convformer", metaformer("conv"))
add("timm", "timm_caformer", metaformer("mixed"))
add("timm", "timm_focalnet", timm_class("focalnet", "FocalNet", embed_dim=12, depths=(1, 1, 2), focal_levels=(2, 2, 2), focal_windows=(3, 3, 3)))
add("timm", "timm_mlp_mixer", timm_class("mlp_mixer", "MlpMixer", img_size=(32, 64), patch_size=8, embed_dim=24, num_blocks=2))
add("timm", "timm_nest", timm_class("nest", "Nest", grid=(64, 64), img_size=64, embed_dims=(12, 24, 48), depths=(1, 1, 1), num_heads=(1, 2, 4)))
add("timm", "timm_volo", timm_class("volo", "VOLO", grid=(64, 64), img_size=64, layers=[1, 1, 1, 1], embed_dims=[16, 24, 24, 24], num_heads=[2, 3, 3, 3]))
add("timm", "timm_crossvit", timm_class("crossvit", "CrossVit", grid=(64, 64), img_size=64, patch_size=(8, 16), embed_dim=(16, 24), num_heads=(2, 3)))


@network("timm")
def timm_mvitv2():
    from timm.models.mvitv2 import MultiScaleVit, MultiScaleVitCfg
    return Part(MultiScaleVit(MultiScaleVitCfg(depths=(1, 1, 1, 1), embed_dim=12), img_size=(64, 64), num_classes=0), "forward_features"), (field(2, 3, 64, 64),)


# --- torchvision ---

def vision_net(name, grid=(32, 64), pick=lambda y: y, **options):
    def make():
        net = getattr(importlib.import_module("torchvision.models"), name, None) or found("torchvision.models.segmentation", name)
        return Part(net(weights=None, **options), pick=pick), (field(2, 3, *grid),)
    return make


def mask(y):
    return y["out"]


add("torchvision", "tv_fcn_resnet50", vision_net("fcn_resnet50", pick=mask, weights_backbone=None, num_classes=2))
add("torchvision", "tv_deeplabv3_mobilenet", vision_net("deeplabv3_mobilenet_v3_large", pick=mask, weights_backbone=None, num_classes=2))
add("torchvision", "tv_lraspp_mobilenet", vision_net("lraspp_mobilenet_v3_large", pick=mask, weights_backbone=None, num_classes=2))
add("torchvision", "tv_swin_v2_t", vision_net("swin_v2_t", num_classes=4))
add("torchvision", "tv_convnext_tiny", vision_net("convnext_tiny", num_classes=4))
add("torchvision", "tv_shufflenet", vision_net("shufflenet_v2_x0_5", (64, 128), num_classes=4))
add("torchvision", "tv_squeezenet", vision_net("squeezenet1_1", (64, 128), num_classes=4))


# --- segmentation-models-pytorch ---

def smp_net(name, grid=(64, 128), encoder="resnet18", **options):
    def make():
        import segmentation_models_pytorch as smp
        return getattr(smp, name)(encoder, encoder_weights=None, in_channels=3, classes=2, **options), (field(2, 3, *grid),)
    return make


SMP = "segmentation-models-pytorch"
add(SMP, "smp_unet", smp_net("Unet", decoder_channels=(32, 16, 16, 8, 8)))
add(SMP, "smp_unet_scse", smp_net("Unet", decoder_channels=(32, 32, 16, 16, 16), decoder_attention_type="scse"))
add(SMP, "smp_unetpp", smp_net("UnetPlusPlus", decoder_channels=(32, 16, 16, 8, 8)))
add(SMP, "smp_manet", smp_net("MAnet", decoder_channels=(32, 16, 16, 16, 16)))
add(SMP, "smp_linknet", smp_net("Linknet"))
add(SMP, "smp_fpn", smp_net("FPN", decoder_pyramid_channels=32, decoder_segmentation_channels=32))
add(SMP, "smp_pspnet", smp_net("PSPNet", psp_out_channels=32))
add(SMP, "smp_deeplabv3plus", smp_net("DeepLabV3Plus", decoder_channels=16))
add(SMP, "smp_upernet", smp_net("UPerNet", decoder_channels=16))
add(SMP, "smp_segformer", smp_net("Segformer", encoder="mit_b0", decoder_segmentation_channels=16))
add(SMP, "smp_unet_effnet", smp_net("Unet", encoder="efficientnet-b0", decoder_channels=(32, 16, 16, 8, 8)))
add(SMP, "smp_dpt", smp_net("DPT", grid=(64, 64), encoder="tu-vit_tiny_patch16_224", decoder_intermediate_channels=(8, 8, 8, 8), decoder_fusion_channels=16, dynamic_img_size=True), casts=True)


# --- monai ---

def monai_net(name, shape=(1, 2, 32, 64), pick=lambda y: y, **options):
    def make():
        return Part(found("monai.networks.nets", name)(**options), pick=pick), (field(*shape),)
    return make


PLANE = {"spatial_dims": 2, "in_channels": 2, "out_channels": 2}
add("monai", "monai_unet", monai_net("UNet", **PLANE, channels=(8, 12, 16), strides=(2, 2), num_res_units=1))
add("monai", "monai_basic_unet", monai_net("BasicUNet", **PLANE, features=(8, 8, 12, 16, 24, 8)))
add("monai", "monai_basic_unetpp", monai_net("BasicUNetPlusPlus", **PLANE, features=(8, 8, 12, 16, 24, 8)))
add("monai", "monai_attention_unet", monai_net("AttentionUnet", **PLANE, channels=(8, 12, 16), strides=(2, 2)))
add("monai", "monai_dynunet", monai_net("DynUNet", **PLANE, kernel_size=[3, 3, 3], strides=[1, 2, 2], upsample_kernel_size=[2, 2], filters=[8, 12, 16]))
add("monai", "monai_segresnet", monai_net("SegResNet", **PLANE, init_filters=8, blocks_down=(1, 1, 1), blocks_up=(1, 1)))
add("monai", "monai_swin_unetr", monai_net("SwinUNETR", **PLANE, depths=(1, 1, 1, 1), num_heads=(2, 2, 4, 4), feature_size=12))
add("monai", "monai_unetr", monai_net("UNETR", **PLANE, img_size=(32, 64), feature_size=8, hidden_size=24, mlp_dim=32, num_heads=2))
add("monai", "monai_vnet", monai_net("VNet", shape=(1, 1, 32, 64), spatial_dims=2, in_channels=1, out_channels=2))
add("monai", "monai_mednext", monai_net("MedNeXt", **PLANE, init_filters=8, kernel_size=3, blocks_down=(1, 1, 1, 1), blocks_bottleneck=1, blocks_up=(1, 1, 1, 1)))
add("monai", "monai_flexible_unet", monai_net("FlexibleUNet", shape=(2, 3, 64, 128), spatial_dims=2, in_channels=3, out_channels=2, backbone="resnet18", decoder_channels=(32, 16, 16, 8, 8)))
add("monai", "monai_unet_3d", monai_net("UNet", shape=(1, 2, 8, 16, 24), spatial_dims=3, in_channels=2, out_channels=2, channels=(6, 8, 12), strides=(2, 2), num_res_units=1))


@network("monai", whole=["timesteps"])
def monai_diffusion_unet():
    net = found("monai.networks.nets", "DiffusionModelUNet")(spatial_dims=2, in_channels=2, out_channels=2, channels=(8, 16), attention_levels=(False, True),
                                                             num_res_blocks=1, num_head_channels=8, norm_num_groups=4)
    return net, {"x": field(1, 2, 16, 32), "timesteps": torch.tensor([7])}


@network("monai")
def monai_restormer():
    net = found("monai.networks.nets.restormer", "Restormer")(**PLANE, dim=8, heads=(1, 1, 2, 2), num_refinement_blocks=1)
    return net, (field(1, 2, 32, 64),)


# --- transformers ---

def transformers_net(config, model, shape=(1, 3, 32, 64), pick=lambda y: y[0], options=None, **sizes):
    def make():
        made = found("transformers", config)(**sizes)
        made._attn_implementation = "eager"
        return Part(found("transformers", model)(made), pick=pick, **(options or {})), (field(*shape),)
    return make


def logits(y):
    return y.logits


TR = "transformers"
add(TR, "tr_segformer", transformers_net("SegformerConfig", "SegformerForSemanticSegmentation", pick=logits, num_channels=3, depths=[1, 1, 1, 1],
                                         hidden_sizes=[8, 12, 16, 24], num_attention_heads=[1, 2, 2, 3], decoder_hidden_size=16))
add(TR, "tr_swin", transformers_net("SwinConfig", "SwinModel", image_size=(32, 64), patch_size=4, embed_dim=12, depths=[2, 2], num_heads=[2, 4], window_size=4))
add(TR, "tr_swinv2", transformers_net("Swinv2Config", "Swinv2Model", image_size=(32, 64), patch_size=4, embed_dim=12, depths=[2, 2], num_heads=[2, 4], window_size=4))
add(TR, "tr_swin2sr", transformers_net("Swin2SRConfig", "Swin2SRForImageSuperResolution", image_size=32, patch_size=1, embed_dim=12, depths=[2], num_heads=[2],
                                       window_size=4, upscale=2, pick=lambda y: y.reconstruction, shape=(1, 3, 16, 24)))
add(TR, "tr_vit", transformers_net("ViTConfig", "ViTModel", image_size=(32, 64), patch_size=8, hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=48))
add(TR, "tr_convnextv2", transformers_net("ConvNextV2Config", "ConvNextV2Model", hidden_sizes=[8, 12, 16, 24], depths=[1, 1, 2, 1]))
add(TR, "tr_mobilevit", transformers_net("MobileViTConfig", "MobileViTModel", image_size=64, hidden_sizes=[24, 32, 40], neck_hidden_sizes=[8, 12, 16, 20, 24, 28, 32],
                                         shape=(1, 3, 64, 128)))
add(TR, "tr_glpn", transformers_net("GLPNConfig", "GLPNForDepthEstimation", depths=[1, 1, 1, 1], hidden_sizes=[8, 12, 16, 24], num_attention_heads=[1, 2, 2, 3],
                                    decoder_hidden_size=8, pick=lambda y: y.predicted_depth))
add(TR, "tr_dpt", transformers_net("DPTConfig", "DPTForDepthEstimation", image_size=64, patch_size=16, hidden_size=24, num_hidden_layers=4, num_attention_heads=3,
                                   intermediate_size=48, backbone_out_indices=[0, 1, 2, 3], neck_hidden_sizes=[8, 8, 8, 8], fusion_hidden_size=8,
                                   pick=lambda y: y.predicted_depth, shape=(1, 3, 64, 64)))
add(TR, "tr_pvt_v2", transformers_net("PvtV2Config", "PvtV2Model", hidden_sizes=[8, 12, 16, 24], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 3]))
add(TR, "tr_focalnet", transformers_net("FocalNetConfig", "FocalNetModel", image_size=64, embed_dim=12, hidden_sizes=[12, 24], depths=[1, 1], focal_levels=[2, 2],
                                        focal_windows=[3, 3], shape=(1, 3, 64, 64)))
add(TR, "tr_bit", transformers_net("BitConfig", "BitModel", embedding_size=32, num_groups=8, hidden_sizes=[32, 32, 64, 64], depths=[1, 1, 1, 1]))
add(TR, "tr_regnet", transformers_net("RegNetConfig", "RegNetModel", embedding_size=8, hidden_sizes=[16, 16, 32, 32], depths=[1, 1, 1, 1], groups_width=8))
add(TR, "tr_van", transformers_net("PoolFormerConfig", "PoolFormerModel", hidden_sizes=[8, 12, 16, 24], depths=[1, 1, 1, 1]))
add(TR, "tr_hiera", transformers_net("HieraConfig", "HieraModel", image_size=[64, 128], embed_dim=12, depths=[1, 1, 2, 1], num_heads=[1, 2, 2, 4], shape=(1, 3, 64, 128)))


# --- diffusers ---

@network("diffusers", whole=["args.1"])
def df_unet2d():
    net = found("diffusers", "UNet2DModel")(sample_size=(32, 64), in_channels=2, out_channels=2, block_out_channels=(8, 16), layers_per_block=1, norm_num_groups=4,
                                            attention_head_dim=8, down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"))
    return Part(net, return_dict=False), (field(1, 2, 32, 64), torch.tensor([7]))


@network("diffusers", whole=["args.1", "args.2"])
def df_unet2d_condition():
    net = found("diffusers", "UNet2DConditionModel")(sample_size=(16, 32), in_channels=2, out_channels=2, block_out_channels=(8, 16), layers_per_block=1, norm_num_groups=4,
                                                     attention_head_dim=4, cross_attention_dim=8, down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
                                                     up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"))
    return Part(net, return_dict=False), (field(1, 2, 16, 32), torch.tensor([7]), field(1, 5, 8))


@network("diffusers", whole=["timestep", "class_labels"])
def df_dit():
    net = found("diffusers", "DiTTransformer2DModel")(num_attention_heads=2, attention_head_dim=8, in_channels=2, out_channels=2, num_layers=2, sample_size=16,
                                                      patch_size=2, norm_num_groups=1, num_embeds_ada_norm=10)
    return net, {"hidden_states": field(1, 2, 16, 16), "timestep": torch.tensor([7]), "class_labels": torch.tensor([3])}


@network("diffusers")
def df_autoencoder_kl():
    net = found("diffusers", "AutoencoderKL")(in_channels=2, out_channels=2, block_out_channels=(8, 16), down_block_types=("DownEncoderBlock2D",) * 2,
                                              up_block_types=("UpDecoderBlock2D",) * 2, norm_num_groups=4, latent_channels=2, sample_size=32)
    return Part(net, pick=lambda y: y.sample), (field(1, 2, 32, 64),)


@network("diffusers", casts=True)
def df_autoencoder_dc():
    net = found("diffusers", "AutoencoderDC")(in_channels=3, latent_channels=4, attention_head_dim=8, encoder_block_types=("ResBlock", "EfficientViTBlock"),
                                              decoder_block_types=("ResBlock", "EfficientViTBlock"), encoder_block_out_channels=(8, 16), decoder_block_out_channels=(8, 16),
                                              encoder_qkv_multiscales=((), (5,)), decoder_qkv_multiscales=((), (5,)), encoder_layers_per_block=(1, 1),
                                              decoder_layers_per_block=(1, 1))
    return Part(net, pick=lambda y: y.sample), (field(1, 3, 32, 64),)


# --- neuraloperator ---

def neuralop_net(name, shape=(1, 2, 32, 48), **options):
    def make():
        return found("neuralop.models", name)(**options), (field(*shape),)
    return make


NO = "neuraloperator"
add(NO, "no_fno", neuralop_net("FNO", n_modes=(8, 8), in_channels=2, out_channels=2, hidden_channels=8, n_layers=2), casts=True)
add(NO, "no_tfno", neuralop_net("FNO", n_modes=(8, 8), in_channels=2, out_channels=2, hidden_channels=8, n_layers=2, factorization="Tucker", rank=0.5), casts=True)
add(NO, "no_fno_norm_padding", neuralop_net("FNO", n_modes=(8, 8), in_channels=2, out_channels=2, hidden_channels=8, n_layers=2, norm="instance_norm", domain_padding=0.1), casts=True)
add(NO, "no_uno", neuralop_net("UNO", in_channels=2, out_channels=2, hidden_channels=8, lifting_channels=8, projection_channels=8, n_layers=3, uno_out_channels=[8, 8, 8],
                               uno_n_modes=[[8, 8], [4, 4], [8, 8]], uno_scalings=[[1, 1], [0.5, 0.5], [2, 2]], horizontal_skips_map={2: 0}, channel_mlp_skip="linear"), casts=True)
add(NO, "no_codano", neuralop_net("CODANO", hidden_variable_codimension=4, lifting_channels=8, projection_channels=8, n_layers=2, n_modes=[[6, 6], [6, 6]], n_heads=[2, 2],
                                  per_layer_scaling_factors=[[1, 1], [1, 1]], attention_scaling_factors=[1, 1], domain_padding=None), casts=True)


# --- the Well ---

class ChannelsLast(nn.Module):
    """A network that takes and returns [batch, rows, columns, channels], in the order of fields."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        return self.net(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def well_net(module, name, grid=(32, 64), around=lambda net: net, **options):
    def make():
        net = found(f"the_well.benchmark.models.{module}", name)(dim_in=2, dim_out=2, n_spatial_dims=2, spatial_resolution=grid, **options)
        return around(net), (field(1, 2, *grid),)
    return make


WELL = "the-well"
add(WELL, "well_afno", well_net("afno", "AFNO", around=ChannelsLast, hidden_dim=16, n_blocks=2, cmlp_diagonal_blocks=2, patch_size=4), casts=True)
add(WELL, "well_avit", well_net("avit", "AViT", around=ChannelsLast, hidden_dim=48, num_heads=12, processor_blocks=2))
add(WELL, "well_dilated_resnet", well_net("dilated_resnet", "DilatedResNet", hidden_dim=8, blocks=2))
add(WELL, "well_refno", well_net("refno", "ReFNO", around=ChannelsLast, hidden_dim=8, blocks=2))
add(WELL, "well_unet_classic", well_net("unet_classic", "UNetClassic", init_features=8))
add(WELL, "well_unet_convnext", well_net("unet_convnext", "UNetConvNext", init_features=8, stages=3))


# --- PhysicsNeMo ---

def nemo_net(module, name, shape=(1, 2, 32, 64), *positional, **options):
    def make():
        return found(f"physicsnemo.models.{module}", name)(*positional, **options), (field(*shape),)
    return make


NEMO = "nvidia-physicsnemo"
add(NEMO, "nemo_afno", nemo_net("afno", "AFNO", inp_shape=[32, 64], in_channels=2, out_channels=2, patch_size=[4, 4], embed_dim=16, depth=2, num_blocks=2), casts=True)
add(NEMO, "nemo_dlwp", nemo_net("dlwp", "DLWP", (1, 2, 6, 16, 16), nr_input_channels=2, nr_output_channels=2, nr_initial_channels=8))
add(NEMO, "nemo_fno", nemo_net("fno", "FNO", in_channels=2, out_channels=2, latent_channels=8, num_fno_layers=2, num_fno_modes=8, padding=4))
add(NEMO, "nemo_pix2pix", nemo_net("pix2pix", "Pix2Pix", in_channels=2, out_channels=2, dimension=2, conv_layer_size=8, n_downsampling=2, n_upsampling=2, n_blocks=1))
add(NEMO, "nemo_srresnet", nemo_net("srrn", "SRResNet", (1, 2, 4, 8, 8), in_channels=2, out_channels=2, conv_layer_size=8, n_resid_blocks=1, scaling_factor=2))
add(NEMO, "nemo_unet_3d", nemo_net("unet", "UNet", (1, 2, 8, 16, 16), in_channels=2, out_channels=2, model_depth=2, feature_map_channels=(8, 8, 16, 16), gradient_checkpointing=False))
add(NEMO, "nemo_rnn", nemo_net("rnn", "One2ManyRNN", (1, 2, 1, 16, 24), input_channels=2, dimension=2, nr_latent_channels=8, nr_residual_blocks=1, nr_tsteps=3))
add(NEMO, "nemo_pangu", nemo_net("pangu", "Pangu", (1, 4 * 13 + 8 - 4 + 16, 24, 48), img_size=(24, 48), patch_size=(2, 4, 4), embed_dim=12, num_heads=(2, 4, 4, 2), window_size=(2, 3, 6)))
add(NEMO, "nemo_fengwu", nemo_net("fengwu", "Fengwu", (1, 4 + 5 * 4, 24, 48), img_size=(24, 48), pressure_level=4, embed_dim=12, patch_size=(4, 4), num_heads=(2, 4, 4, 2), window_size=(2, 3, 6)))


@network(NEMO, whole=["noise_labels"])
def nemo_song_unet():
    net = found("physicsnemo.models.diffusion_unets", "SongUNet")(img_resolution=[32, 64], in_channels=2, out_channels=2, model_channels=8, channel_mult=[1, 2], num_blocks=1,
                                                                  attn_resolutions=[16], dropout=0.0)
    return net, {"x": field(1, 2, 32, 64), "noise_labels": torch.tensor([0.3], dtype=torch.float64), "class_labels": None}


@network(NEMO, casts=True, whole=["mod"])
def nemo_modafno():
    net = found("physicsnemo.models.afno", "ModAFNO")(inp_shape=[32, 64], in_channels=2, out_channels=2, patch_size=[4, 4], embed_dim=16, mod_dim=64, depth=2, num_blocks=2)
    return net, {"x": field(1, 2, 32, 64), "mod": torch.tensor([[0.3]], dtype=torch.float64)}


# --- CREDIT ---

CREDIT = "miles-credit"
FIELDS = {"image_height": 32, "image_width": 64, "frames": 1, "channels": 2, "levels": 3, "surface_channels": 2, "input_only_channels": 1, "output_only_channels": 0}


def crossformer(**options):
    def make():
        net = found("credit.models.wxformer.crossformer", "CrossFormer")(
            **FIELDS, patch_height=1, patch_width=1, dim=(8, 16, 32, 64), depth=(1, 1, 1, 1), dim_head=8, global_window_size=(4, 4, 2, 1), local_window_size=2,
            cross_embed_kernel_sizes=((4, 8), (2, 4), (2, 4), (2, 4)), cross_embed_strides=(2, 2, 2, 2), **options)
        return net, (field(1, 9, 1, 32, 64),)
    return make


add(CREDIT, "credit_crossformer", crossformer(interp=False, use_spectral_norm=False))
add(CREDIT, "credit_wxformer", crossformer(interp=True, use_spectral_norm=True, padding_conf={"activate": True, "mode": "earth", "pad_lat": [16, 16], "pad_lon": [16, 16]}))


@network(CREDIT)
def credit_fuxi():
    net = found("credit.models.fuxi", "Fuxi")(**{**FIELDS, "frames": 2}, patch_height=4, patch_width=4, frame_patch_size=2, dim=16, num_groups=4, num_heads=2, depth=2, window_size=4,
                                              use_spectral_norm=False)
    return net, (field(1, 9, 2, 32, 64),)


@network(CREDIT)
def credit_unet():
    net = found("credit.models.unet", "SegmentationModel")(**FIELDS, architecture={"name": "unet", "encoder_name": "resnet18", "encoder_weights": None})
    return net, (field(2, 9, 1, 64, 128),)


@network(CREDIT)
def credit_swin():
    net = found("credit.models.swin", "SwinTransformerV2Cr")(img_size=(32, 64), patch_size=4, window_size=4, channels=2, levels=3, surface_channels=2, input_only_channels=1,
                                                             output_only_channels=0, frames=1, embed_dim=12, depths=(2,), num_heads=(2,))
    return net, (field(1, 9, 1, 32, 64),)


# --- torch-harmonics ---

def harmonics_net(module, name, grid=(16, 32), **options):
    def make():
        return found(f"torch_harmonics.examples.models.{module}", name)(img_size=grid, in_chans=2, out_chans=2, **options), (field(1, 2, *grid),)
    return make


TH = "torch-harmonics"
add(TH, "th_sfno", harmonics_net("sfno", "SphericalFourierNeuralOperator", embed_dim=8, num_layers=2, scale_factor=2), casts=True)
add(TH, "th_sfno_norm", harmonics_net("sfno", "SphericalFourierNeuralOperator", embed_dim=8, num_layers=2, scale_factor=1, normalization_layer="instance_norm", pos_embed="learnable lat"), casts=True)
add(TH, "th_lsno", harmonics_net("lsno", "LocalSphericalNeuralOperator", embed_dim=8, num_layers=2, scale_factor=2), casts=True)
add(TH, "th_s2transformer", harmonics_net("s2transformer", "SphericalTransformer", embed_dim=8, num_layers=2, scale_factor=2), single=True)
add(TH, "th_s2transformer_global", harmonics_net("s2transformer", "SphericalTransformer", embed_dim=8, num_layers=2, scale_factor=2, attention_mode="global"), casts=True)
add(TH, "th_s2unet", harmonics_net("s2unet", "SphericalUNet", embed_dims=[8, 12], depths=[1, 1], scale_factor=2, drop_conv_rate=0.0, drop_path_rate=0.0, drop_dense_rate=0.0), casts=True)
add(TH, "th_s2segformer", harmonics_net("s2segformer", "SphericalSegformer", embed_dims=[8, 12], heads=[1, 2], depths=[1, 1], drop_path_rate=0.0), single=True)


# --- Aurora ---

class Aurora(nn.Module):
    """Aurora on tensors. What follows from its grid alone, whose values it checks, is computed once and not captured."""

    def __init__(self, net, grid):
        super().__init__()
        from aurora import Metadata
        from aurora.model import encoder, fourier
        for value in vars(fourier).values():
            if isinstance(value, fourier.FourierExpansion):
                value.assert_range = False
        lat, lon = torch.linspace(90, -90 + 180 / grid[0], grid[0]), torch.linspace(0, 360, grid[1] + 1)[:-1]
        self.net = net
        self.metadata = Metadata(lat=lat, lon=lon, time=(datetime.datetime(2023, 1, 1, 12),), atmos_levels=(500, 850))
        self.places = encoder.pos_scale_enc(net.encoder.embed_dim, lat, lon, net.patch_size, pos_expansion=fourier.pos_expansion,
                                            scale_expansion=fourier.scale_expansion)

    def forward(self, surf_vars, static_vars, atmos_vars):
        from aurora import Batch, Metadata
        from aurora.model import decoder, encoder
        with unittest.mock.patch.object(Metadata, "__post_init__", lambda self: None), \
                unittest.mock.patch.object(encoder, "pos_scale_enc", lambda *_, **__: self.places), \
                unittest.mock.patch.object(decoder, "float", lambda hours: 0.0, create=True):  # times of the result
            y = self.net(Batch(surf_vars, static_vars, atmos_vars, self.metadata))
        return y.surf_vars, y.atmos_vars


@network("microsoft-aurora")
def aurora_small():
    net = found("aurora", "Aurora")(embed_dim=32, num_heads=4, encoder_depths=(2, 2), encoder_num_heads=(2, 4), decoder_depths=(2, 2), decoder_num_heads=(4, 2), patch_size=4,
                                    window_size=(2, 4, 4), use_lora=False, latent_levels=4, enc_depth=1, dec_depth=1, autocast=False)
    grid = 32, 64
    surf = {name: field(1, 2, *grid) * scale for name, scale in (("2t", 280.0), ("10u", 5.0), ("10v", 5.0), ("msl", 1e5))}
    static = {name: field(*grid) for name in ("lsm", "z", "slt")}
    atmos = {name: field(1, 2, 2, *grid) for name in ("z", "u", "v", "t", "q")}
    return Aurora(net, grid), (surf, static, atmos)
