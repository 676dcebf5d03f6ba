"""Every reader of foreign text, with inputs for it and the errors that it documents.

Kubernetes objects go the whole way: decoded as by the watch cache, handed to the scheduler's own watches and to its
engine, which decides now and then. The manager and the webhook get theirs in the same way (services.py). Each other
reader is one function. A reader may raise what its docstring names, nothing else, and must end soon.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import cast

import msgspec
import numpy as np
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from bench.fuzz.agents import agent_readers
from bench.fuzz.dumps import dump_readers
from bench.fuzz.inputs import documents_of, text_input, texts_like
from bench.fuzz.movers import credit_readers, rebalancer_readers
from bench.fuzz.reader import Clock, CollectedWatches, Reader
from bench.fuzz.selectors import selector_reader
from bench.fuzz.services import lint_reader, manager_readers, webhook_readers
from cotenant.drivers.cgroup import parsing as cgroup
from cotenant.drivers.cgroup import translation
from cotenant.drivers.jaeger.batch import request_of
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.kinds.custom.service_objective import read_spec
from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.otlp.decoding import decode_json, decode_protobuf, gunzip
from cotenant.drivers.otlp.resources import span_tags
from cotenant.drivers.proc import host
from cotenant.drivers.proc.pressure import parse_pressure
from cotenant.drivers.resctrl import schemata
from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind
from cotenant.engine.node.instructions import AgentCounts
from cotenant.engine.node.settings import AgentSettings
from cotenant.engine.node.view import NodePodsView
from cotenant.engine.rehearsal import rehearse
from cotenant.engine.state.reports import NodeReports
from cotenant.engine.traces.trace_engine import TraceEngine
from cotenant.model.document import parse
from cotenant.model.errors import CotenantError, InvalidInput
from cotenant.model.machine.knob import GiveBack, Knob, KnobTarget, SetKnob
from cotenant.model.machine.node_decision import DecisionTerm, Reason
from cotenant.model.machine.node_pod import NodePod
from cotenant.model.quantities import parse_quantity
from cotenant.model.traces.spans import SpanBatch
from cotenant.policy.placement.profiles import profile
from cotenant.services.agent_settings.config import read_config
from cotenant.services.agent_settings.koordinator import not_taken, policies_of, read_node_slo
from cotenant.services.knobs import wire
from cotenant.services.objectives.converting import convert
from cotenant.services.objectives.files import documents, objectives_of
from cotenant.services.reporting import payload, signals, stories
from cotenant.services.scheduling.claims import ClaimBinder
from cotenant.services.scheduling.load_aware import parse_settings
from cotenant.services.scheduling.watches import EngineWatches
from cotenant.services.zones.zone_files import definition_of
from cotenant_lab.traces.read import read_table


def all_readers(folder: Path) -> list[Reader]:
    """Every reader; those of Kubernetes objects share one engine, and those of files write into `folder`."""
    return [
        *_kubernetes(),
        *manager_readers(),
        *webhook_readers(),
        *rebalancer_readers(),
        *dump_readers(folder / "dumps"),
        *credit_readers(),
        *agent_readers(),
        selector_reader(),
        lint_reader(),
        *_objectives(),
        *_node_files(),
        *_documents(folder),
        *_messages(),
        *_spans(),
        _trace(folder),
    ]


def _kubernetes() -> list[Reader]:
    rehearse(profile("cotenant-requests"))
    cluster = Cluster(profile("cotenant-requests"), np.random.default_rng(0))
    watches, reader, clock = CollectedWatches(), PodReader(), Clock()
    EngineWatches(watches, cluster, reader, ClaimBinder(cast(Client, None), reader.volumes), NodeReports(), clock.now)

    def decide() -> None:
        for instruction in cluster.decide(clock.now()):
            if isinstance(instruction, Bind) and cluster.sending(instruction.uid, clock.now()):
                cluster.bind_failed(instruction.uid, "fuzz", clock.now())
        cluster.validate()

    return watches.readers("kubernetes", clock, decide)


def _node_files() -> list[Reader]:
    stat = b"usage_usec 100\nuser_usec 60\nsystem_usec 40\nnr_periods 5\nnr_throttled 1\nthrottled_usec 99\n"
    pressure = (
        b"some avg10=0.00 avg60=1.20 avg300=0.00 total=12345\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=6789\n"
    )
    io = b"8:0 rbytes=1024 wbytes=0 rios=3 wios=0 dbytes=0 dios=0\n253:1 rbytes=1 wbytes=2 rios=3 wios=4\n"
    throttle = b"8:0 Read 4096\n8:0 Write 0\n8:0 Total 4096\nTotal 4096\n"
    net = (
        b"Inter-|   Receive  |  Transmit\n face |bytes packets|bytes packets\n  eth0: 100 2 0 0 0 0 0 0 200 3 0 0 0 "
        b"0 0 0\n"
    )
    disks = b"   8       0 sda 100 0 2000 30 40 0 800 60 0 70 90\n 259 0 nvme0n1 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15\n"
    caches = b"    L3:0=ff;1=0f\n    MB:0=100;1=50\n  L3CODE:0=3\n"

    def of(text: bytes) -> str:
        return text.decode("utf-8", "surrogateescape")

    known = (ValueError, CotenantError)
    return [
        Reader("cgroup number", texts_like(b"123\n", b"max\n", b"-1\n"), cgroup.number),
        Reader("cgroup cpu.stat", texts_like(stat),
            lambda text: (cgroup.field(text, b"usage_usec"), cgroup.total(text, b"user_usec", b"x"))),
        Reader("cgroup io.stat", texts_like(io), cgroup.io_stat),
        Reader("cgroup blkio", texts_like(throttle), cgroup.throttle_bytes),
        Reader("cgroup cpu.max", texts_like(b"max 100000\n", b"5000 100000\n"), cgroup.cpu_max_m),
        Reader("cgroup cpu.shares", texts_like(b"1024\n"), lambda text: translation.parse_shares(of(text)), known),
        Reader("cgroup memory limit", texts_like(b"max\n", b"9223372036854771712\n"),
            lambda text: translation.memory_max_of(of(text)), known),
        Reader("cgroup io.max", texts_like(b"8:0 1048576\n253:0 5\n"),
            lambda text: translation.device_limits_of([of(text)] * 4), known),
        Reader("pressure", texts_like(pressure), parse_pressure),
        Reader("proc net/dev", texts_like(net), lambda text: host.network_bytes(of(text))),
        Reader("proc diskstats", texts_like(disks), lambda text: host.used_disks(of(text))),
        Reader("resctrl schemata", texts_like(caches), lambda text: schemata.parse_schemata(of(text)), known),
    ]  # fmt: skip


def _documents(folder: Path) -> list[Reader]:
    config = folder / "agent.yaml"
    agent = (
        b"node: n0\nmode: dry-run\nperiod_ms: 1000\nbest_effort: [be]\nservices:\n"
        b"  - {name: web, group: ls/web, objective_p99_ms: 50}\ncapacity: {cpu_m: 8000}\n"
    )
    settings = (
        b"usageThresholds: {cpu: 65, memory: 95}\nestimatedScalingFactors: {cpu: 85}\nfilterExpiredNodeMetrics: true\n"
    )
    slo = (
        b'{"spec": {"resourceUsedThresholdWithBE": {"enable": true, "cpuSuppressThresholdPercent": 65}, '
        b'"cpuBurstStrategy": {"policy": "auto"}}}'
    )
    yaml = b"a: &x [1, 2.5, null, yes]\nb: *x\nc: !!timestamp 2026-01-01\nd: |\n  text\n? [k]\n: v\n"

    def agent_config(text: bytes) -> object:
        config.write_bytes(text)
        return read_config(config)

    def node_slo(text: bytes) -> object:
        given = read_node_slo(parse(text, "slo"))
        return policies_of(given), not_taken(given)

    return [
        Reader(
            "quantity",
            lambda rng: text_input(rng).encode("utf-8", "replace"),
            lambda text: parse_quantity(text.decode("utf-8", "replace")),
            (InvalidInput,),
        ),
        Reader("YAML", texts_like(yaml), lambda text: parse(text, "document"), (InvalidInput,), 0.1),
        Reader(
            "load-aware settings", texts_like(settings), lambda text: parse_settings(text, "file"), (InvalidInput,), 0.1
        ),
        Reader("agent configuration", texts_like(agent), agent_config, (InvalidInput,), 0.1),
        Reader("NodeSLO", texts_like(slo), node_slo, (InvalidInput,), 0.1),
    ]


def _messages() -> list[Reader]:
    reason = Reason("guard", "slack is -3 %", (DecisionTerm("slack", -30, "permille"),))
    target = KnobTarget("be/a", Knob.CPU_MAX)
    requests: list[wire.Request] = [
        wire.Hold((SetKnob(target, "max 100000", reason),)),
        wire.End((GiveBack(target, reason),)),
        wire.ReadKnobs((target,)),
    ]
    return [
        Reader(
            "keeper request",
            texts_like(*(wire.frame(request)[wire.LENGTH.size :] for request in requests)),
            wire.request,
            (CotenantError,),
        ),
        Reader(
            "keeper reply",
            texts_like(wire.frame(wire.KnobValues(("max",)))[wire.LENGTH.size :]),
            wire.reply,
            (CotenantError,),
        ),
        Reader("node report", documents_of(payload.Payload), payload.read, (InvalidInput,)),
    ]


def _spans() -> list[Reader]:
    """OTLP requests, through the trace engine too."""
    span = (
        b'{"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b174","parentSpanId":"eee19b7ec3c1b173",'
        b'"name":"GET /",'
        b'"kind":2,"startTimeUnixNano":"1700000000000000000","endTimeUnixNano":"1700000000001000000","status":{"code":2},'
        b'"attributes":[{"key":"db.system","value":{"stringValue":"redis"}},{"key":"n","value":{"intValue":"7"}}]}'
    )
    resource = (
        b'{"attributes":[{"key":"service.name","value":{"stringValue":"cart"}},'
        b'{"key":"host.name","value":{"stringValue":"a"}}]}'
    )
    text = (
        b'{"resourceSpans":[{"resource":' + resource + b',"scopeSpans":[{"spans":[' + b",".join([span] * 3) + b"]}]}]}"
    )
    request = ParseDict(msgspec.json.decode(text), ExportTraceServiceRequest())
    for entry in request.resource_spans[0].scope_spans[0].spans:
        entry.trace_id, entry.span_id, entry.parent_span_id = b"t" * 16, b"s" * 8, b"p" * 8
    protobuf = request.SerializeToString()
    jaeger = bytes.fromhex(
        "82810009656d697442617463681c1c180463617274191c18097370616e2e6b696e64150018067365727665720000191c160e1611160816001804776f726b191c1500160e16111606001502"
        "168080f28183898506160a191c18097370616e2e6b696e641500180673657276657200000000"
    )  # a batch of one span, in compact Thrift
    engine = TraceEngine(1.7e9, span_tags)

    def take(decode: Callable[[bytes], SpanBatch], body: bytes) -> None:
        engine.add(decode(body), 1.7e9)
        engine.finish_all(1.7e9)

    return [
        Reader("OTLP protobuf", texts_like(protobuf, protobuf * 30), lambda body: take(decode_protobuf, body),
            (InvalidInput,), 0.3),
        Reader("OTLP JSON", texts_like(text), lambda body: take(decode_json, body), (InvalidInput,), 0.1),
        Reader("OTLP gzip", texts_like(gzip.compress(text)), gunzip, (InvalidInput,)),
        Reader("Jaeger datagram", texts_like(jaeger), lambda body: take(decode_protobuf, request_of(body)),
            (InvalidInput,), 0.3),
    ]  # fmt: skip


def _objectives() -> list[Reader]:
    """Specs and files of objectives, those of other systems, and what agents and the trace process say to each
    other.
    """
    spec = (
        b'{"service": {"namespace": "shop", "name": "cart", "operation": "GET /cart"}, "indicator": {"latency": '
        b'{"below": "200ms"}}, "target": "99.9", "window": "28d", '
        b'"alerting": {"severities": {"fast": "critical", "slow": ""}, "minEvents": 50}, "protect": {"guard": true, '
        b'"maxAction": "cap"}}'
    )
    file = (
        b'{"apiVersion": "slo.cotenant.io/v1alpha1", "kind": "ServiceObjective", "metadata": {"name": "cart"}, '
        b'"spec": %b}' % spec
    )
    sloth = (
        b"version: prometheus/v1\nservice: s\nslos:\n- {name: a, objective: 99.9, sli: {events: {error_query: "
        b"'x{le=\"0.5\"}', total_query: x}}}\n"
    )
    openslo = (
        b"{apiVersion: openslo/v1, kind: SLO, metadata: {name: a}, spec: {service: s, indicator: {spec: "
        b"{thresholdMetric: {metricSource: {spec: {query: x}}}}}, "
        b"timeWindow: [{duration: 28d, isRolling: true}], budgetingMethod: Occurrences, objectives: [{target: 0.99, "
        b"op: lte, value: 0.2}]}}"
    )
    pyrra = (
        b"{apiVersion: pyrra.dev/v1alpha1, kind: ServiceLevelObjective, metadata: {name: a}, spec: {target: '99', "
        b"window: 2w, indicator: {latency: {success: {metric: 'x_bucket{le=\"1\"}'}}}}}"
    )
    line = (
        b'{"signals":[{"objective":"o","service":"s","pod":"p","podUid":"u","thresholdUs":1,"budgetPpm":1000,'
        b'"maxAction":"cap","guard":true,"windowUs":9000000,"requests":5,"bad":1,"p99Us":1,"atTargetUs":1}],'
        b'"withdrawn":[["p","o"]]}'
    )
    story = (
        b'{"node":"n","atS":1.0,"story":{"service":"shop/web","node":"n","now_us":9,"enabled":true,'
        b'"replicas":["shop/w"],"incidents":[{"number":1,"stage":"holding","pod":"shop/w","uid":"u","objective":"",'
        b'"objective_us":1,"signal":"latency","threshold_ppm":1000000,'
        b'"before":{"level_ppm":2000000,"burn_milli":3000,"samples":1},"cause":"pod","culprit":"batch/b",'
        b'"confidence_ppm":900000,"candidates":[],"proofs":[{"rung":"cap","culprit":"batch/b","at_us":3,'
        b'"before":{"level_ppm":2,"burn_milli":null,"samples":1},"during":null,"after":null,"helped":true}],'
        b'"opened_us":1,"recovered_after_us":2,"ended_us":null,"chain":[{"link":"cause","text":"c"}],'
        b'"events":[{"at_us":1,"stage":"suspected","text":"t"}]}],"text":["t"]}}'
    )
    zone = (
        b'{"zone": "shop", "groups": [{"group": "a/web", "kind": "service", "late_ms": 5, "weight": 100}], '
        b'"backend": "auto", "policy": {"burn": 1.5}, "vm": {"memory_mib": 512, "cpus": 2}, "start": "exclusive", '
        b'"exclusive": {"share": 0.25}}'
    )
    control_zone = (
        b'{"apiVersion": "slo.cotenant.io/v1alpha1", "kind": "ControlZone", "metadata": {"name": "a"}, '
        b'"spec": {"applications": [{"labels": {"app": "web"}}], "rules": [{"kind": "batch", "sliceUs": 9}]}}'
    )
    view = NodePodsView(AgentSettings(), AgentCounts())
    view.pods_seen([NodePod("u", "shop", "cart", "g")])

    def of(text: bytes) -> str:
        return text.decode("utf-8", "replace")

    def read(text: bytes) -> None:
        for document in documents(of(text), "file"):
            read_spec("ns", "name", document)

    def take(text: bytes) -> None:
        for wire_signal in signals.decode_line(text).signals:
            view.signal_reported("u", signals.to_signal(wire_signal), 0)

    wrong = (InvalidInput,)
    return [
        Reader("ServiceObjective spec", texts_like(spec), read, wrong, 0.1),
        Reader(
            "ServiceObjective file",
            texts_like(file),
            lambda text: objectives_of(documents(of(text), "file"), "file"),
            wrong,
            0.1,
        ),
        Reader("zone file", texts_like(zone, control_zone), lambda text: definition_of(text, "file"), wrong, 0.1),
        Reader(
            "objectives of other systems",
            texts_like(sloth, openslo, pyrra),
            lambda text: convert(documents(of(text), "file")),
            wrong,
            0.1,
        ),
        Reader("signal line", texts_like(line), take, wrong),
        Reader(
            "signal subscription",
            texts_like(b'{"node":"n","pods":[["shop/cart","u"]]}'),
            signals.decode_subscription,
            wrong,
        ),
        Reader(
            "action taken",
            texts_like(b'{"objective":"o","node":"n","pod":"p","action":"cap","text":"t","atS":1.0}'),
            signals.decode_action,
            wrong,
        ),
        Reader("story", texts_like(story), stories.decode, wrong),
    ]


def _trace(folder: Path) -> Reader:
    table = folder / "openb_pod_list.csv"
    valid = (
        b"name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
        b"p0,1000,2048,1,500,,LS,Running,0,100,1\np1,2000,4096,0,0,V100M16|T4,BE,Succeeded,5,,6\n"
    )

    def read(text: bytes) -> object:
        table.write_bytes(text)
        return read_table("openb", "pods", table)

    return Reader("trace openb", texts_like(valid), read, (InvalidInput,), 0.005)
