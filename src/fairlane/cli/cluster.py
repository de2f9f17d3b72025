"""``fairlane cluster``: manifests for running Fairlane on a Kubernetes cluster."""

import re
from typing import TYPE_CHECKING, Any

import click

from fairlane.cli._click import Command, Group
from fairlane.errors import FairlaneError

if TYPE_CHECKING:
    from fairlane.platforms.kubevirt.permissions import Deployed, Permission
    from fairlane.study.spec import Study

_LABEL = re.compile(r"([A-Za-z0-9./_-]{1,317})=([A-Za-z0-9._-]{0,63})")
_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_QUANTITY = re.compile(r"[1-9][0-9]*(\.[0-9]+)?([KMGTPE]i|[kMGTPE])?")


@click.group(
    cls=Group,
    examples="""
fairlane cluster rbac study.yaml                       # permissions that this study needs, and no more
fairlane cluster rbac study.yaml | kubectl apply -f -
fairlane cluster manifests study.yaml --image IMAGE    # a Job that runs it in the cluster
""",
)
def command() -> None:
    """Print RBAC and Job manifests for Kubernetes.

    It is printed, and nothing is changed: kubectl apply -f - does that.
    """


@command.command(
    cls=Command,
    examples="""
fairlane cluster rbac                                    # for a namespace per run
fairlane cluster rbac study.yaml                         # only what this study needs
fairlane cluster rbac --use-existing --namespace bench   # in an existing namespace
fairlane cluster rbac --user alice@example.com           # for a person instead of a service account
""",
)
@click.argument("study", metavar="[STUDY]", required=False)
@click.option(
    "--namespace", help="Namespace of the service account, or of the machines.  [default: the study's, or fairlane]"
)
@click.option("--use-existing", is_flag=True, help="Runs use this namespace and create none.")
@click.option("--user", default="", help="Grant the permissions to this user.")
@click.option("--group", default="", help="Grant the permissions to this group.")
def rbac(study: str | None, namespace: str | None, use_existing: bool, user: str, group: str) -> None:
    """Print the RBAC manifests a run needs.

    Each rule has its reason. With STUDY, a study file or a preset's name: only the permissions of this study, in its
    namespace.
    """
    from fairlane.platforms.kubevirt import deployment, permissions

    if study and (namespace or use_existing):
        raise click.UsageError("--namespace and --use-existing: STUDY sets them")
    if user and group:
        raise click.UsageError("give --user or --group, not both")
    if namespace is not None and not _NAMESPACE.fullmatch(namespace):
        raise click.BadParameter("expected lower-case letters, digits and dashes, at most 63", param_hint="--namespace")
    loaded = _study(study) if study else None
    granted, deployed = _granted(loaded, namespace or "fairlane", use_existing, user, group)
    objects = [*deployment.account(deployed), *permissions.roles(granted, deployed)]
    click.echo(deployment.text(objects, granted), nl=False)


@command.command(
    cls=Command,
    examples="""
fairlane cluster manifests study.yaml --image registry.example.com/fairlane:0.1.0
fairlane cluster manifests study.yaml --image IMAGE --openshift --runs-class nfs --on node-role.kubernetes.io/infra=
""",
)
@click.argument("study", metavar="STUDY")
@click.option("--image", required=True, help="Container image of Fairlane; deploy/Containerfile builds it.")
@click.option("--pull-secret", default="", help="Secret with the registry's password, if it needs one.")
@click.option("--openshift", is_flag=True, help="Leave user and group IDs to OpenShift (restricted-v2).")
@click.option(
    "--runs-class",
    default="",
    help="Storage class of the claim for runs: best not a class under test.  [default: the cluster's]",
)
@click.option("--runs-size", default="10Gi", show_default=True, help="Size of that claim.")
@click.option(
    "--on",
    "labels",
    multiple=True,
    metavar="LABEL=VALUE",
    help="Run only on nodes with this label, best not nodes under test. Repeatable.",
)
@click.option("--without-rbac", is_flag=True, help="Leave out the output of `fairlane cluster rbac STUDY`.")
def manifests(
    study: str,
    *,
    image: str,
    pull_secret: str,
    openshift: bool,
    runs_class: str,
    runs_size: str,
    labels: tuple[str, ...],
    without_rbac: bool,
) -> None:
    """Print a Job manifest that runs STUDY in the cluster.

    Its permissions, a Job, the claim that its run is kept on, and a viewer. A pod that ends is replaced and goes on
    with the run. kubectl port-forward deployment/fairlane-viewer 8642 shows it at http://127.0.0.1:8642/;
    docs/cluster.md tells how to copy it out.
    """
    from fairlane import registry
    from fairlane.cli._before import consider
    from fairlane.platforms.kubevirt import deployment, permissions
    from fairlane.study.load import load_study

    loaded = _study(study)
    if getattr(loaded.platform, "context", ""):
        message = "platform.context names a context of a kubeconfig, and within the cluster there is none"
        raise FairlaneError("context-in-cluster", message, where=study, hint="remove platform.context")
    consider(loaded, study, registry.load("platforms", loaded.platform.kind).of(loaded).unfit())
    if not _QUANTITY.fullmatch(runs_size):
        raise click.BadParameter(f"{runs_size!r} is not a size such as 10Gi", param_hint="--runs-size")
    granted, deployed = _granted(loaded, "", False, "", "")
    plan = deployment.Plan(
        loaded.name,
        load_study(study)[1],
        image,
        deployed.namespace,
        claim_size=runs_size,
        claim_class=runs_class,
        openshift=openshift,
        pull_secret=pull_secret,
        node_labels=_labels(labels),
    )
    objects = [] if without_rbac else [*deployment.account(deployed), *permissions.roles(granted, deployed)]
    click.echo(deployment.text([*objects, *deployment.job(plan)], granted), nl=False)


def _study(ref: str) -> "Study":
    from fairlane.study.load import load_study

    study, _ = load_study(ref)
    if study.platform.kind != "kubevirt":
        message = f"the study is for platform {study.platform.kind}, not for a cluster"
        raise FairlaneError("platform-other", message, where=ref, hint="platform: {kind: kubevirt, ...}")
    return study


def _granted(
    study: "Study | None", namespace: str, use_existing: bool, user: str, group: str
) -> "tuple[tuple[Permission, ...], Deployed]":
    """The permissions, and the account or user that gets them."""
    from fairlane.platforms.kubevirt import permissions

    if study is not None:
        spec: Any = study.platform
        namespace, use_existing = spec.namespace, spec.use_existing
    granted = permissions.wanted(permissions.needs(study, use_existing=use_existing))
    return granted, permissions.Deployed(namespace, use_existing, permissions.source(study), user, group)


def _labels(given: tuple[str, ...]) -> dict[str, str]:
    labels = {}
    for text in given:
        if not (label := _LABEL.fullmatch(text)):
            raise click.BadParameter(f"{text!r} is not LABEL=VALUE", param_hint="--on")
        labels[label[1]] = label[2]
    return labels
