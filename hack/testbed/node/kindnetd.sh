#!/bin/sh
# Takes the place of kindnetd: gives this node's pods addresses of the node's range, and leads to those of the other nodes.
# Its environment is what kind's manifest sets: POD_IP, POD_SUBNET, CONTROL_PLANE_ENDPOINT.
set -eu

settings=/etc/cni/net.d/10-kindnet.conflist
account=/var/run/secrets/kubernetes.io/serviceaccount
nodes() {
    kubectl --server="https://$CONTROL_PLANE_ENDPOINT" --certificate-authority="$account/ca.crt" --token="$(cat $account/token)" \
        get nodes --no-headers --request-timeout="$1" \
        --output=custom-columns='A:.status.addresses[?(@.type=="InternalIP")].address,R:.spec.podCIDR' $2
}

configure() {
    cat > "$settings.new" <<EOF
{"cniVersion": "0.4.0", "name": "kindnet", "plugins": [
 {"type": "ptp", "ipMasq": false,
  "ipam": {"type": "host-local", "dataDir": "/run/cni-ipam-state", "routes": [{"dst": "0.0.0.0/0"}], "ranges": [[{"subnet": "$1"}]]}},
 {"type": "portmap", "capabilities": {"portMappings": true}}
]}
EOF
    if ! cmp -s "$settings.new" "$settings"; then mv "$settings.new" "$settings"; fi
}

iptables -w -t nat -C POSTROUTING -s "$POD_SUBNET" ! -d "$POD_SUBNET" -j MASQUERADE 2>/dev/null ||
    iptables -w -t nat -A POSTROUTING -s "$POD_SUBNET" ! -d "$POD_SUBNET" -j MASQUERADE

while true; do
    nodes 20s --watch | while read -r address range; do
        case "$range" in
            '<none>') ;;
            *) if [ "$address" = "$POD_IP" ]; then configure "$range"; else ip route replace "$range" via "$address"; fi ;;
        esac
    done
    sleep 1
done
